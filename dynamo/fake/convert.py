"""From real tensors to fakes."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynamo.fake.errors import Unsupported
from dynamo.fake.tensor import META, FakeTensor, is_phantom


class _Answer(TorchDispatchMode):
    """Answers the one op it sees with a given fake; autograd then gives that fake a grad_fn."""

    def __init__(self, fake: FakeTensor) -> None:
        super().__init__()
        self.fake = fake

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _ANSWERED:
            return self.fake
        # the device question; passing it on to the subclass would make torch import torch.distributed.tensor
        return META if is_phantom(self.fake.fake_device) else self.fake.fake_device


_ANSWERED = frozenset({torch.ops.aten._unsafe_view.default, torch.ops.aten.alias.default})


class Converter:
    """Remembers what was converted: one fake per tensor, one meta storage per storage."""

    def __init__(self) -> None:
        # the tensors are kept alive so that ids stay theirs; both dicts live as long as the trace
        self._fakes: dict[int, tuple[torch.Tensor, FakeTensor]] = {}
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def fake_of(self, t: torch.Tensor) -> FakeTensor:
        if type(t) is FakeTensor:
            return t
        known = self._fakes.get(id(t))
        if known is not None:
            return known[1]
        fake = self._make(t, _is_leaf(t))
        self._fakes[id(t)] = (t, fake)
        return fake

    def _make(self, t: torch.Tensor, leaf: bool) -> FakeTensor:
        refuse_unusual(t)
        device = device_of(t)
        is_phantom(device)
        with modes_off():
            if t.is_inference():
                with _inference(True):
                    return FakeTensor(self._meta_of(t), device, t.requires_grad)
            with _inference(False):
                meta = self._meta_of(t)
                if t.requires_grad and t._is_view():  # autocast remembers the casts of leaves that are no views
                    has_base = t._base is not None and t._base.requires_grad
                    if leaf or not has_base:
                        view = self._view_of(meta, device, t, has_base)
                        return view if leaf else self._view_of_view(view, t)
                if leaf or not t.requires_grad:
                    return FakeTensor(meta, device, t.requires_grad)
                with torch.enable_grad(), _Answer(FakeTensor(meta, device)):
                    return torch.ops.aten._unsafe_view.default(FakeTensor(meta, device, True), t.shape)

    def _view_of(self, meta: torch.Tensor, device: torch.device, t: torch.Tensor, has_base: bool) -> FakeTensor:
        """A leaf that is a view. `has_base`: of a tensor that needs a gradient, as a view of it from under `no_grad` does then."""
        with torch.no_grad(), _Answer(FakeTensor(meta, device)):
            view = torch.ops.aten.alias.default(FakeTensor(meta, device, has_base))
        # as the tensor itself was made: a write through a view from under no_grad makes its history unreadable
        torch._C._autograd._set_creation_meta(view, torch._C._autograd._get_creation_meta(t))
        return view.requires_grad_()

    def _view_of_view(self, leaf: FakeTensor, t: torch.Tensor) -> FakeTensor:
        """A view with a history of a tensor that needs no gradient: what is seen of such a leaf."""
        with torch.enable_grad(), _Answer(FakeTensor(leaf.meta, leaf.fake_device)):
            view = torch.ops.aten.alias.default(leaf)
        torch._C._autograd._set_creation_meta(view, torch._C._autograd._get_creation_meta(t))
        return view

    def _meta_of(self, t: torch.Tensor) -> torch.Tensor:
        """The meta tensor of the same layout over the meta storage that stands for `t`'s. Modes must be off."""
        if t.device == META:
            return t.detach()
        storage = t.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is None and t.is_contiguous() and storage.nbytes() == t.nbytes:
            meta = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META)
            self._storages[storage._cdata] = (storage, meta.untyped_storage())
        else:
            if known is None:
                known = self._storages[storage._cdata] = (storage, torch.UntypedStorage(storage.nbytes(), device=META))
            with torch.no_grad():
                meta = torch.empty(0, dtype=t.dtype, device=META)
                meta.set_(known[1], t.storage_offset(), t.shape, t.stride())
        if t.is_conj():
            torch._C._set_conj(meta, True)
        if t.is_neg():
            torch._C._set_neg(meta, True)
        return meta


def device_of(t: torch.Tensor) -> torch.device:
    """The device that the fake of a tensor claims to be on. Where there is no GPU, tests let processors' tensors stand for a GPU's."""
    return t.device


# Entering a context costs as much as making a meta tensor, and mostly there is nothing to switch.
_NOTHING = contextlib.nullcontext()


def modes_off() -> contextlib.AbstractContextManager[Any]:
    if torch._C._len_torch_dispatch_stack() or torch._ops._len_torch_dispatch_stack_pre_dispatch():
        return torch.utils._python_dispatch._disable_current_modes()
    return _NOTHING


def _inference(wanted: bool) -> contextlib.AbstractContextManager[Any]:
    return torch.inference_mode(wanted) if torch.is_inference_mode_enabled() != wanted else _NOTHING


def _is_leaf(t: torch.Tensor) -> bool:
    """Whether `t` is a leaf. A view made under `no_grad` of a tensor that was written since has a history that can't be read:
    what eager raises for it depends on the operator, so that it is refused here."""
    try:
        return t.is_leaf
    except RuntimeError as e:
        raise Unsupported("a view made under no_grad whose base was written since") from e


def refuse_unusual(t: torch.Tensor) -> None:
    """Raise `Unsupported` for tensors that no strided meta tensor describes."""
    if type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        if torch.utils._python_dispatch.is_traceable_wrapper_subclass(t) or not _is_plain_subclass(type(t)):
            raise Unsupported(f"tensor subclass {type(t).__module__}.{type(t).__qualname__}")
    if t.layout is not torch.strided:
        raise Unsupported(f"layout {t.layout}")
    if t.is_quantized:
        raise Unsupported("quantized tensor")
    if t.is_nested:
        raise Unsupported("nested tensor")
    if t.requires_grad and not (t.is_floating_point() or t.is_complex()):  # a write of one float leaves that
        raise Unsupported("integers with a history")
    if t._is_zerotensor():
        raise Unsupported("zeros without memory")
    if torch._C._functorch.is_functorch_wrapped_tensor(t):
        raise Unsupported("tensor inside a functorch transform")


def _is_plain_subclass(cls: Any) -> bool:
    """Subclasses that change no behaviour, such as user classes of Parameter."""
    base: Any = torch.Tensor
    function = cls.__torch_function__
    inherited = getattr(function, "__func__", function) is base.__torch_function__.__func__
    disabled = function is torch._C._disabled_torch_function_impl
    return (inherited or disabled) and cls.__torch_dispatch__ is base.__torch_dispatch__
