"""Making instances of torch's classes while tracing: one row per class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.protocols.calls import fold
from dynamo.symbolic.values.kinds import ClassValue, Const, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]
    Maker = Callable[[Tracer, ClassValue, Args, Kwargs], Value | None]


_LEGACY = type(torch.FloatTensor)


def make(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    """The instance, or None when the class is made like any other."""
    row = _CLASSES.get(fn.obj)
    if row is not None:
        return row(tx, fn, args, kwargs)
    for base, maker in _FAMILIES:
        if isinstance(base, tuple | type) and issubclass(fn.obj, base):
            return maker(tx, fn, args, kwargs)
    if type(fn.obj) is _LEGACY:
        return _graph_call(tx, fn, args, kwargs)
    return None


def _folded(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    return fold(tx, fn.obj, args, kwargs)


def _graph_call(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    """torch.Tensor(...), torch.FloatTensor(...)."""
    if len(args) == 1 and args[0].cls is torch.Size:  # a shape, where a tuple is data; in the arguments of a graph both are tuples
        kind: Any = fn.obj
        dtype = torch.get_default_dtype() if kind is torch.Tensor else kind.dtype
        if kwargs or (kind is not torch.Tensor and kind.is_cuda):
            raise tx.break_("DD005", f"{fn.obj.__name__}()")
        return tx.call_function(torch.empty, args, {"dtype": Const(dtype), "device": Const(torch.device("cpu"))})
    if any(_has_tensor(a) for a in args if not isinstance(a, TensorValue)):
        raise tx.break_("DD003", f"{fn.obj.__name__}() of tensors")
    return tx.call_function(fn.obj, args, kwargs)


def _has_tensor(v: Value) -> bool:
    if isinstance(v, ListValue | TupleValue):
        return any(isinstance(x, Value) and _has_tensor(x) for x in v.items)
    return isinstance(v, TensorValue)


def _leaf(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    raise tx.break_("DD027", f"{fn.obj.__name__} of a tensor")


def _machinery(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    raise tx.break_("DD022", fn.describe())


def _lazy(tx: Tracer, fn: ClassValue, args: Args, kwargs: Kwargs) -> Value | None:
    raise tx.break_("DD011", f"{fn.obj.__name__}: a parameter without a shape")


_CLASSES: dict[type, Maker] = {
    torch.device: _folded,
    torch.finfo: _folded,
    torch.iinfo: _folded,
    torch.Tensor: _graph_call,
    torch.nn.Parameter: _leaf,
    torch.nn.Buffer: _leaf,
}
_FAMILIES: tuple[tuple[type, Maker], ...] = (
    (torch.nn.UninitializedParameter, _lazy),
    (torch.nn.UninitializedBuffer, _lazy),
    (torch.Stream, _machinery),
    (torch.Event, _machinery),
    (torch.overrides.TorchFunctionMode, _machinery),
    (torch.utils._python_dispatch.TorchDispatchMode, _machinery),
    (torch.autograd.graph.saved_tensors_hooks, _machinery),
    (torch.utils.hooks.BackwardHook, _machinery),
)
