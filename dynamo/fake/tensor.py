"""The fake tensor: shape, strides, dtype, device and autograd history of a tensor, without its data.

A `FakeTensor` is two tensors over one storage: the outer one is what user code and the autograd engine hold, its dispatch keys
are those of the real device; `.meta` is the plain meta tensor kernels are asked about. Views made from a fake share the meta
storage, so autograd's view tracking and every aliasing question work as for real tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dynamo.fake.errors import DataDependent

META = torch.device("meta")
CPU = torch.device("cpu")
CONSTANT_NUMEL = 64

_phantom: dict[str, bool] = {"cpu": False, "meta": False}


def is_phantom(device: torch.device) -> bool:
    """True if there is no such device here; C++ code is then told `meta`, Python code the truth.

    The autograd engine asks the runtime of a tensor's device for streams. Without a runtime that aborts the process, and with
    one but no device it raises.
    """
    kind = device.type
    known = _phantom.get(kind)
    if known is None:
        known = _phantom[kind] = kind == "cuda" and torch.cuda.device_count() == 0
    return known


def any_phantom() -> torch.device | None:
    """The device type that C++ knows as `meta` in this process, if a fake of one was ever made."""
    for kind, phantom in _phantom.items():
        if phantom:
            return torch.device(kind, 0)
    return None


class FakeTensor(torch.Tensor):
    """A tensor of any device that holds no data.

    Fields: `meta`, the plain meta tensor with the same shape, strides, dtype and (shared) storage; `fake_device`, the device it
    claims to be on. Created by `FakeMode.from_real` and by running ops.
    """

    meta: torch.Tensor
    fake_device: torch.device
    _constant: tuple[torch.Tensor, int] | None = None
    track: Any  # what the trace of `dynamo/aot` knows of the value

    run: ClassVar[Callable[[Any, Any, Any, Any], Any]]  # how operators of fakes run: `mode.py`, which knows it, gives it

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # torch's own way to switch it off

    @staticmethod
    def __new__(cls, meta: torch.Tensor, device: torch.device, requires_grad: bool = False) -> FakeTensor:  # noqa: PYI034  # has no subclasses
        fake: FakeTensor = _make_subclass(cls, meta, requires_grad, dispatch_device=True, device_for_backend_keys=device)
        fake.meta = meta
        fake.fake_device = device
        return fake

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # declared as an instance method
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return FakeTensor.run(None, func, args, kwargs or {})

    def __init__(self, *_: Any, **__: Any) -> None:
        """Takes what `__new__` took; there is nothing left to set."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # a plain attribute for mypy
        return self.fake_device

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]  # the same
        return self.fake_device.type == "cuda"

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]  # the same
        return self.fake_device.type == "cpu"

    @property
    def is_meta(self) -> bool:  # type: ignore[override]  # the same
        return self.fake_device.type == "meta"

    @property
    def data(self) -> torch.Tensor:
        return _base_data.__get__(self)

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        if not isinstance(new, FakeTensor):
            raise TypeError("the data of a fake tensor can only be set to another fake tensor")
        _base_data.__set__(self, new)
        self.meta = _make_subclass(torch.Tensor, new.meta)
        self.fake_device = new.fake_device

    @property
    def constant(self) -> torch.Tensor | None:
        """The real value, for a small tensor made from Python data and not written to since; else None."""
        if self._constant is None:
            return None
        value, version = self._constant
        if self._version != version:
            self._constant = None
            return None
        return value

    def set_constant(self, value: torch.Tensor) -> None:
        if value.numel() <= CONSTANT_NUMEL and not self.is_inference():
            self._constant = (value, self._version)

    def forget_constant(self) -> None:
        """Let go of the real value: the tensor lives on as shape and dtype."""
        self._constant = None

    def tolist(self) -> Any:
        if self.constant is not None:
            return self.constant.tolist()
        raise DataDependent("Tensor.tolist")

    def numpy(self, *, force: bool = False) -> Any:
        raise DataDependent("Tensor.numpy")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise DataDependent("Tensor.__array__")

    def __dlpack__(self, *_: Any, **__: Any) -> Any:
        raise DataDependent("Tensor.__dlpack__")

    def data_ptr(self) -> int:
        raise DataDependent("Tensor.data_ptr")

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeTensor:
        with _disable_current_modes(), torch.no_grad():
            copy = FakeTensor(self.meta.clone(), self.fake_device, self.requires_grad)
        memo[id(self)] = copy
        return copy

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # untyped in torch
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor({tuple(self.shape)}, {self.dtype}, {self.fake_device}{grad})"

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else super().__format__(spec)


_make_subclass = torch.Tensor._make_subclass
_base_data: Any = torch._C.TensorBase.data


def sync(fake: FakeTensor) -> None:
    """Give the outer tensor the shape and storage its meta tensor got from an op such as `resize_` or `transpose_`."""
    meta = fake.meta
    if fake.shape == meta.shape and fake.stride() == meta.stride() and fake.storage_offset() == meta.storage_offset():
        if fake.untyped_storage()._cdata == meta.untyped_storage()._cdata:
            return
    before = torch._C._meta_in_tls_dispatch_include()
    with torch._C._DisableTorchDispatch(), torch._C._PreserveDispatchKeyGuard():
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            _in_kernel.append(fake)
            torch.ops.aten.set_.source_Storage_storage_offset(
                fake, meta.untyped_storage(), meta.storage_offset(), meta.shape, meta.stride()
            )
        finally:
            _in_kernel.pop()
            torch._C._set_meta_in_tls_dispatch_include(before)


_in_kernel: list[FakeTensor] = []
