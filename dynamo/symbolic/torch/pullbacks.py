"""`torch.func.vjp` and `torch.func.linearize`: the functions that they return, as values whose calls are nodes of the graph.

Such a node runs the function again (equal operators are computed once where the backend merges them), so what the function has read
must be as it was. The value lives in the trace alone: code that is left while it is in use continues from before the transform.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.graph import transforms
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.torch.regions import filled, structure_of
from dynamo.symbolic.torch.transforms import NODES, Derivative, Traced
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import NONE, Const, TensorValue, TracingState, Value
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]


class LinearValue(TracingState):
    """The function returned. `takes` has the structure of its arguments, `gives` that of its result; `held` is what it reads of memory."""

    cls = types.FunctionType

    def __init__(self, tx: Tracer, d: Derivative, traced: Traced, takes: Value, gives: Value, held: list[torch.Tensor]) -> None:
        super().__init__(tx)
        self.d, self.traced, self.takes, self.gives = d, traced, takes, gives
        read = (*(v.fake for v in d.given), *(n.meta["val"] for n in traced.read), *held)
        if any(t.is_inference() for t in read):
            raise d.call.native("of inference tensors, whose writes nobody counts")
        self.held = [(t, t._version) for t in read]
        self.modes, self.is_recording = _modes(), torch.is_grad_enabled()

    def describe(self) -> str:
        return f"what torch.func.{self.d.call.name} returns"

    def moved(self, v: Value) -> list[TensorValue]:
        """The tensors that it is called with, where it can be."""
        call = self.d.call
        if any(t._version != then for t, then in self.held):
            raise call.native("whose function is called when tensors that it reads have changed")
        if _modes() != self.modes:
            raise call.native("whose function is called under another autocast")
        if structure_of(call.tx, v) != structure_of(call.tx, self.takes):
            raise call.native("whose function is called with another structure")
        return call.tensors(v)


class _PullValue(LinearValue):
    """What `vjp` returns."""


class _PushValue(LinearValue):
    """What `linearize` returns."""


def _modes() -> list[tuple[bool, torch.dtype]]:
    return [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")]


def _derivative(tx: Tracer, name: str, args: Args, kwargs: Kwargs) -> tuple[Derivative, Value]:
    """The call, and the rest of what it was given: whether there is more than the result."""
    try:
        given = inspect.signature(getattr(torch.func, name)).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise tx.break_("DD022", f"torch.func.{name} with these arguments", cause=e) from e
    primals = list(given.get("primals", ()))
    return Derivative(tx, name, given["func"], primals, {}, Const(tuple(range(len(primals))))), given.get("has_aux", NONE)


def _vjp(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`vjp(func, *primals, has_aux=False)`."""
    d, has_aux = _derivative(tx, "vjp", args, kwargs)
    traced = d.traced(by_backward=True)
    result, aux = d.split(traced.result, bool(d.call.known(has_aux)))
    ends = d.call.tensors(result)
    if not all(v.fake.dtype.is_floating_point or v.fake.dtype.is_complex for v in ends):
        raise d.call.native("of a function that gives integers")
    values = d.call.emitted(transforms.primal, (len(d.learned), len(ends)), d.given, traced)
    pull = _PullValue(tx, d, traced, result, d.wanted, [v.fake for v in values if isinstance(v, TensorValue)])
    found = iter(values)
    parts = [filled(tx, result, found), pull]
    return tx.make_tuple(parts if aux is None else [*parts, filled(tx, aux, found)])


def _linearize(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`linearize(func, *primals)` calls the function twice, and derives the second call."""
    d, _ = _derivative(tx, "linearize", args, kwargs)
    if tx.builder.scopes:
        raise d.call.native("inside another transform")  # most of them refuse it
    out = tx_call(tx, d.call.fn, d.args, {})
    traced = d.traced(by_backward=False)
    d.call.tensors(traced.result)
    return tx.make_tuple([out, _PushValue(tx, d, traced, d.wanted, traced.result, [])])


def _pull(tx: Tracer, v: _PullValue, args: Args, kwargs: Kwargs) -> Value:
    """`pull(cotangents, retain_graph=True, create_graph=None)`."""
    cotangents, keep, create = _bound(v, _pull_signature, args, kwargs)
    call = v.d.call
    if call.known(keep) is not True:
        raise call.native("whose function is called without keeping its graph")
    moved = v.moved(cotangents)
    settings = (len(v.d.learned), len(moved), v.is_recording, call.known(create))
    found = _emitted(tx, v, transforms.vjp, settings, moved)
    return filled(tx, v.gives, iter(found))


def _push(tx: Tracer, v: _PushValue, args: Args, kwargs: Kwargs) -> Value:
    """`push(*tangents)`."""
    if kwargs:
        raise v.d.call.native("whose function is called with arguments by name")
    moved = v.moved(tx.make_tuple(args))
    for primal, tangent in zip(v.d.learned, moved, strict=True):
        a, b = primal.fake, tangent.fake
        if (a.shape, a.device, a.dtype) != (b.shape, b.device, b.dtype):
            raise v.d.call.native("whose function is called with other shapes or types")
    return filled(tx, v.gives, iter(_emitted(tx, v, transforms.push, len(moved), moved)))


def _emitted(tx: Tracer, v: LinearValue, target: Callable[..., Any], settings: Any, moved: list[TensorValue]) -> list[Value]:
    call = v.d.call
    call.tx = tx
    try:
        return call.emitted(target, settings, [*v.d.given, *moved], v.traced)
    except BreakError as e:
        raise call.native("whose function is called elsewhere than it was made", e) from e


def _pull_signature(cotangents: Any, retain_graph: Any = True, create_graph: Any = None) -> None: ...


def _bound(v: LinearValue, signature: Callable[..., Any], args: Args, kwargs: Kwargs) -> list[Value]:
    try:
        bound = inspect.signature(signature).bind(*args, **kwargs)
    except TypeError as e:
        raise v.d.call.native("whose function is called with other arguments", e) from e
    bound.apply_defaults()
    return [x if isinstance(x, Value) else Const(x) for x in bound.arguments.values()]


fill(_PullValue, call=_pull)
fill(_PushValue, call=_push)
NODES["vjp"], NODES["linearize"] = _vjp, _linearize
