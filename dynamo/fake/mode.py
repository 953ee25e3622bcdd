"""Running ops on fakes: unwrap to meta tensors, ask a rule or torch's meta kernel, wrap the result with the right device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, Self
from weakref import ref

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynamo.fake.checks import Check, check_of
from dynamo.fake.convert import Converter
from dynamo.fake.errors import DataDependent, NoMeta
from dynamo.fake.filled import layouts_of
from dynamo.fake.overlap import check_overlap
from dynamo.fake.rules import Rule, rule_of
from dynamo.fake.said import saying
from dynamo.fake.standins import plain_shapes
from dynamo.fake.tensor import CPU, META, FakeTensor, _in_kernel, any_phantom, is_phantom, sync
from dynamo.ops.facts import CHECKS_TYPES, aten_name, facts_of, is_composite, mixes_types, unwritten_form, writes_of
from dynamo.ops.rows import KEEPS_SHAPE_OF_OUT

aten = torch.ops.aten
OpOverload = torch._ops.OpOverload
Special = Callable[["FakeMode | None", Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(slots=True)
class Plan:
    """What is known about an op before its arguments are."""

    special: Special | None
    rule: Rule | None
    writes: tuple[int | str, ...]
    takes_device: bool
    takes_generator: bool
    mixes_devices: bool
    check: Check | None = None


_plans: dict[Any, Plan] = {}


def counting_lists(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    """A handler of operators after which the tensors in lists that were written have one more version.

    Writes to other tensors are counted by autograd, above the handler; those to lists by the kernels, which fakes don't have.
    """

    @wraps(dispatch)
    def counted(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not (lists := _lists_written(func)):
            return dispatch(self, func, types, args, kwargs)
        given = dict(enumerate(args)) | (kwargs or {})
        written = [t for at in lists for t in given.get(at, ()) if not t.is_inference()]
        before = [t._version for t in written]
        result = dispatch(self, func, types, args, kwargs)
        if [t._version for t in written] == before:
            torch.autograd.graph.increment_version(written)
        return result

    return counted


@cache
def _lists_written(func: Any) -> tuple[int | str, ...]:
    """Places and names of the lists whose tensors eager's kernel counts a write to: those of fused optimizers write behind autograd."""
    name = getattr(func, "_schema", None) and func._schema.name
    if not name or not name.startswith("aten::") or name.startswith(("aten::_fused_", "aten::_amp_")):
        return ()
    lists = {a.name if a.kwarg_only else i: a.type for i, a in enumerate(func._schema.arguments)}
    return tuple(at for at in writes_of(func) if str(lists[at]) == "List[Tensor]")


class FakeMode(TorchDispatchMode):
    """While active, every op gives fake tensors; factories make fakes; real tensors met on the way are converted.

    Raises `DataDependent`, `NoMeta`, `Unsupported` (dynamo.fake.errors), or what eager would raise for wrong shapes or devices.
    """

    def __init__(self) -> None:
        super().__init__()
        self._converter = Converter()
        self.ran: Counter[Any] = Counter()  # every operator that has run under this mode, and how often
        self._storages_written: dict[int, torch.UntypedStorage] = {}
        self._constants: list[ref[FakeTensor]] = []
        self._entered: list[tuple[bool, plain_shapes]] = []
        self._hooks: list[bool] = []

    def __enter__(self) -> Self:
        shapes = plain_shapes(only_shapes=True)
        # torch.tensor(data, device="cuda") must reach us before it touches a device
        self._entered.append((torch._C._only_lift_cpu_tensors(), shapes))
        torch._C._set_only_lift_cpu_tensors(True)
        self._hooks.append(torch._C._autograd._saved_tensors_hooks_set_tracing(True))  # the user's are for real tensors
        shapes.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        only_lift_cpu, shapes = self._entered.pop()
        shapes.__exit__(None, None, None)
        torch._C._autograd._saved_tensors_hooks_set_tracing(self._hooks.pop())
        torch._C._set_only_lift_cpu_tensors(only_lift_cpu)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch wraps `__torch_dispatch__` of modes in a call of its own compiler unless this says no."""
        return False

    @counting_lists
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func, args, kwargs = numbers_made(func, args, kwargs or {})
        self.ran[func] += 1
        for where in plan_of(func).writes:
            given = kwargs.get(where) if isinstance(where, str) else args[where] if where < len(args) else None
            for storage in (t.untyped_storage() for t in _listed(given) if type(t) is FakeTensor):
                self._note_write(storage)
        if facts_of(func).one_dtype and mixes_types(args):
            self.ran[CHECKS_TYPES] += 1
        return run(self, func, args, kwargs)

    def keep_constant(self, fake: FakeTensor, value: torch.Tensor) -> None:
        """Give a fake its real value, until something is written to its memory."""
        fake.set_constant(value)
        self._constants.append(ref(fake))

    def _note_write(self, storage: torch.UntypedStorage) -> None:
        self._storages_written[storage._cdata] = storage
        for fake in (r() for r in self._constants):
            if fake is not None and fake.untyped_storage()._cdata == storage._cdata:
                fake.forget_constant()

    def has_written(self, fake: FakeTensor) -> bool:
        """Whether an operator has written to this tensor's memory, also where no version counts it (`x.data.mul_(2)`)."""
        return fake.untyped_storage()._cdata in self._storages_written

    def from_real(self, t: torch.Tensor) -> FakeTensor:
        """The fake of a real tensor: same shape, strides, offset, dtype, device, requires_grad, aliasing.

        One fake per real tensor and mode. Raises `Unsupported` for sparse, quantized, nested
        tensors and subclasses.
        """
        return self._converter.fake_of(t)


def numbers_made(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A cast of a number, as vmap makes for `x * 2.0` in torch 2.11, makes a tensor of it: a number comes here without its tensor."""
    if func is not aten._to_copy.default or isinstance(args[0], torch.Tensor):
        return func, args, kwargs
    return aten.scalar_tensor.default, args, {k: v for k, v in kwargs.items() if k in ("dtype", "layout", "device", "pin_memory")}


def run(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run one op overload over fake (and real) tensors; the result has fakes for tensors."""
    plan = plan_of(func)
    if plan.special is not None:
        return plan.special(mode, func, args, kwargs)
    return propagate(plan, mode, func, args, kwargs)


def plan_of(func: Any) -> Plan:
    plan = _plans.get(func)
    if plan is None:
        plan = _plans[func] = _make_plan(func)
    return plan


class _Devices:
    """The common device of the tensors of one call."""

    __slots__ = ("device", "func", "mixes", "weak")

    def __init__(self, func: Any, mixes: bool) -> None:
        self.device: torch.device | None = None
        self.weak = False
        self.mixes = mixes
        self.func = func

    def add(self, fake: FakeTensor) -> None:
        device = fake.fake_device
        if self.device is None:
            self.device = device
            self.weak = device.type == "cpu" and fake.dim() == 0
        elif self.device is not device and self.device != device and not self.mixes:
            if device.type == "cpu" and fake.dim() == 0:
                return
            if not self.weak:
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two devices, "
                    f"{self.device} and {device}! (when checking arguments in {self.func})"
                )
            self.device = device
            self.weak = False
        elif self.weak and fake.dim() != 0:
            self.weak = False


def _unwrap(value: Any, mode: FakeMode | None, devices: _Devices) -> Any:
    kind = type(value)
    if kind is FakeTensor:
        devices.add(value)
        return value.meta
    if kind is list or kind is tuple:
        return kind([_unwrap(v, mode, devices) for v in value])
    if isinstance(value, torch.Tensor):
        fake = (mode or FakeMode()).from_real(value)
        devices.add(fake)
        return fake.meta
    return value


def propagate(plan: Plan, mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    devices = _Devices(func, plan.mixes_devices)
    metas = [_unwrap(a, mode, devices) for a in args]
    named = {k: _unwrap(v, mode, devices) for k, v in kwargs.items()} if kwargs else kwargs
    device = devices.device
    if plan.takes_device:
        device = _result_device(named, device)
    if plan.takes_generator:
        named = {k: v for k, v in named.items() if k != "generator"}
    if device is None:
        device = CPU
    if plan.check is not None:
        plan.check(*metas, **named)
    if plan.writes:
        return _run_writing(plan, func, args, kwargs, metas, named, device)
    rule = plan.rule
    out = rule(device, *metas, **named) if rule is not None else NotImplemented
    if out is NotImplemented:
        try:
            out = call_meta(func, metas, named)
        except NoMeta as missing:
            out = layouts_of(missing, args, kwargs)
        return _wrap_all(out, device, metas)
    if isinstance(out, torch.Tensor):
        return FakeTensor(out, device)
    return _wrap_all(out, device, metas)


def _result_device(named: dict[str, Any], device: torch.device | None) -> torch.device | None:
    """Take `device=` and `pin_memory=` out of the arguments; the meta kernel is asked for `meta`."""
    asked = named.get("device")
    if asked is not None:
        device = real_device(torch.device(asked))
    elif device is None:
        device = CPU
    named["device"] = META
    named.pop("pin_memory", None)
    return device


def real_device(device: torch.device) -> torch.device:
    """The device with its index filled in; `meta` names the phantom device, if this process has one."""
    if device.type == "meta":
        return any_phantom() or device
    if device.type != "cpu" and device.index is None:
        index = 0 if is_phantom(device) else torch.accelerator.current_device_index()
        return torch.device(device.type, index)
    is_phantom(device)
    return device


def _wrap_all(out: Any, device: torch.device, metas: list[Any]) -> Any:
    if isinstance(out, torch.Tensor):
        if any(out is m for m in metas):
            out = out.detach()
        return FakeTensor(out, device)
    if isinstance(out, (list, tuple)):
        return type(out)([_wrap_all(o, device, metas) for o in out])
    return out


# Autograd's own check misses views: those of a fake have a version, as only inference tensors of torch's own making have none.
_WRITES_TO_INFERENCE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a normal tensor before doing "
    "inplace update.See https://github.com/pytorch/rfcs/pull/17 for more details."
)


def _run_writing(
    plan: Plan,
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    metas: list[Any],
    named: dict[str, Any],
    device: torch.device,
) -> Any:
    """In-place and out= ops: what is returned are the fakes that were passed in."""
    written: dict[int, FakeTensor] = {}
    targets: list[Any] = []
    for where in plan.writes:
        given, inner = (
            (kwargs.get(where), named.get(where))
            if isinstance(where, str)
            else (args[where], metas[where])
            if where < len(args)
            else (None, None)
        )
        targets.append(inner)
        for outer, meta in zip(_listed(given), _listed(inner), strict=True):
            if type(outer) is FakeTensor:
                if outer.is_inference() and not torch.is_inference_mode_enabled():
                    raise RuntimeError(_WRITES_TO_INFERENCE)
                written[id(meta)] = outer
    read = [m for i, m in enumerate(metas) if i not in plan.writes]
    check_overlap(func, targets, [*read, *(v for k, v in named.items() if k not in plan.writes)])
    out = plan.rule(device, *metas, **named) if plan.rule is not None else NotImplemented
    if out is NotImplemented:
        out = _run_meta_writing(plan, func, metas, named, targets, device)
    for fake in written.values():
        sync(fake)
    return _rewrap(out, device, written)


def _run_meta_writing(plan: Plan, func: Any, metas: list[Any], named: dict[str, Any], targets: list[Any], device: torch.device) -> Any:
    """Torch's kernels for tensors without data may lay an `out` out like a new result though it has the shape, and return that result."""
    before = [(m, m.shape, m.stride(), m.storage_offset()) for m in targets if isinstance(m, torch.Tensor)]
    out = call_meta(func, metas, named)
    if not all(isinstance(where, str) for where in plan.writes):
        return out
    if plan.writes == ("out",) and isinstance(out, torch.Tensor) and any(out.shape != shape for _, shape, _, _ in before):
        _restride(out, func, metas, {k: v for k, v in named.items() if k != "out"}, device)
    for meta, shape, strides, offset in before:
        keeps = meta.shape == shape or (aten_name(func) in KEEPS_SHAPE_OF_OUT and meta.numel() == shape.numel())
        if keeps and (meta.shape != shape or meta.stride() != strides):
            meta.as_strided_(shape, strides, offset)
    if len(before) < len(plan.writes) or out is None:
        return out
    return before[0][0] if isinstance(out, torch.Tensor) else type(out)([meta for meta, *_ in before])


def _restride(out: torch.Tensor, func: Any, metas: list[Any], named: dict[str, Any], device: torch.device) -> None:
    """An `out` that was resized is laid out as a new result is, which the meta kernels written in Python leave out."""
    form = unwritten_form(func)
    rule = plan_of(form).rule if form is not None else None
    new = rule(device, *metas, **named) if rule is not None else NotImplemented
    if isinstance(new, torch.Tensor) and new.shape == out.shape:
        out.as_strided_(new.shape, new.stride())


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _rewrap(out: Any, device: torch.device, known: dict[int, FakeTensor]) -> Any:
    if isinstance(out, torch.Tensor):
        mine = known.get(id(out))
        return FakeTensor(out, device) if mine is None else mine
    if isinstance(out, (list, tuple)):
        return type(out)([_rewrap(o, device, known) for o in out])
    return out


def call_meta(func: Any, metas: list[Any], named: dict[str, Any]) -> Any:
    """Torch's own answer: the meta kernel, or the decomposition if there is none."""
    with plain_shapes():
        try:
            return func(*metas, **named)
        except NotImplementedError as missing:
            decomposition = torch._decomp.global_decomposition_table["post_autograd"].get(func)
            if decomposition is None:
                raise NoMeta(func, str(missing).split("\n", 1)[0]) from None
            return decomposition(*metas, **named)


def _make_plan(func: Any) -> Plan:
    if not isinstance(func, OpOverload):
        return Plan(_refuse, None, (), False, False, False)
    special, facts = _SPECIAL.get(func), facts_of(func)  # those with a special form only sometimes need values, whatever their tags say
    if special is None and facts.needs_values:
        special = _refuse
    if special is None and _arrives_whole(func):
        special = _decompose
    names = {a.name for a in func._schema.arguments}
    return Plan(
        special, rule_of(func), facts.writes, "device" in names, "generator" in names, facts.mixes_devices, saying(func, check_of(func))
    )


def _arrives_whole(func: Any) -> bool:
    """Composite ops arrive undecomposed under inference mode. One that has a kernel for tensors with data stays whole."""
    return is_composite(func) and not any(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), k) for k in ("Meta", "CPU"))


def _decompose(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with mode or FakeMode(), plain_shapes(), _tracked_views():
        return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


@contextmanager
def _tracked_views() -> Iterator[None]:
    """Views of ordinary tensors are ordinary and count their writes, as where composites are taken apart before they get here."""
    key = torch._C.DispatchKey.ADInplaceOrView
    is_excluded = torch._C._dispatch_tls_is_dispatch_key_excluded(key)
    torch._C._dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        yield
    finally:
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, is_excluded)


def _refuse(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not isinstance(func, OpOverload):
        raise NoMeta(func, "higher-order operators have no fake")
    raise DataDependent(func)


def _device_of(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    fake = args[0]
    if (_in_kernel and _in_kernel[-1] is fake) or is_phantom(fake.fake_device):
        return META
    return fake.fake_device


def _lift(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeTensor:
    """`torch.tensor(data)` ends here, with a real CPU tensor nobody else holds."""
    t = args[0]
    if type(t) is FakeTensor:
        return propagate(_plans[func], mode, aten.alias.default, args, kwargs)
    fake = FakeTensor(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=META), t.device)
    if mode is not None:
        mode.keep_constant(fake, t)
    return fake


def _item(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    t = args[0]
    value = t.constant if type(t) is FakeTensor else None
    if value is None:
        raise DataDependent(func)
    return value.item()


def _index(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
        raise DataDependent(func)
    return propagate(_plans[func], mode, func, args, kwargs)


def _repeat_interleave(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("output_size") is None:
        raise DataDependent(func)
    return propagate(_plans[func], mode, func, args, kwargs)


def _never(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return False


def _itself(mode: FakeMode | None, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


_SPECIAL: dict[Any, Special] = {
    torch.ops.prim.device.default: _device_of,
    aten.lift.default: _lift,
    aten.lift_fresh.default: _lift,
    aten.lift_fresh_copy.default: _lift,
    aten._local_scalar_dense.default: _item,
    aten.index.Tensor: _index,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.is_pinned.default: _never,
    aten._pin_memory.default: _itself,
}

FakeTensor.run = staticmethod(run)
