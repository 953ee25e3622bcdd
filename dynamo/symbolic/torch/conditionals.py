"""`torch.cond` as one node: `graph_helpers.cond(predicate, true body, false body, *operands)`, each branch a graph of its own.

Torch runs `cond` by its own compiler, in eager too. What that refuses (branches that write to what they are given, that alias it, whose
results differ), and what this one can't put into a graph, is a break: eager runs such a call, and raises what it raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from dynamo.graph import helpers as graph_helpers
from dynamo.symbolic.attempt.graph import Scope
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.protocols.registry import function
from dynamo.symbolic.torch.regions import body_of, filled, flat, pure_region, structure_of
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import Const, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass
class _Branch:
    """A branch as traced: its graph with what it reads from outside, and the tensors among its results."""

    scope: Scope
    result: Value
    leaves: list[TensorValue]


@function(torch.cond)
def _cond(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    try:
        given = inspect.signature(torch.cond).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise _native(tx, "with these arguments", e) from e
    predicate, operands = given["pred"], given.get("operands", tx.make_tuple([]))
    if not isinstance(operands, ListValue | TupleValue) or operands.cls not in (list, tuple):
        raise _native(tx, "with operands of another kind")
    items = tx.items(operands.items)
    if not isinstance(predicate, TensorValue):
        known = tx.try_python(predicate) if isinstance(predicate, Const) else None
        if known is None or type(known[0]) not in (bool, int, float):
            raise _native(tx, f"on {predicate.describe()}")
        return tx_call(tx, given["true_fn" if known[0] else "false_fn"], items, {})
    _check_operands(tx, predicate, items)
    branches = [_traced(tx, given[name], items) for name in ("true_fn", "false_fn")]
    _check_results(tx, branches)
    return _emitted(tx, predicate, branches)


def _native(tx: Tracer, why: str, cause: BaseException | None = None) -> BreakError:
    return tx.break_("DD022", f"torch.cond {why}", cause=cause)


def _check_operands(tx: Tracer, predicate: TensorValue, items: Sequence[Value]) -> None:
    if predicate.fake.numel() != 1 or predicate.cls not in _PLAIN:
        raise _native(tx, "on a tensor that isn't one number")
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda") or torch.is_inference_mode_enabled():
        raise _native(tx, "under autocast or in inference mode")
    if any(scope.is_rehearsal for scope in tx.builder.scopes):
        raise _native(tx, "in a function that the graph calls")
    for item in items:
        if any(not isinstance(v, TensorValue) for v in flat(tx, item)):
            raise _native(tx, "with operands that are no tensors")


def _traced(tx: Tracer, fn: Value, operands: list[Value]) -> _Branch:
    with pure_region(tx, f"{fn.describe()} under cond", "branch", partial(_native, tx)) as scope:
        result = tx_call(tx, fn, operands, {})
        leaves = list(flat(tx, result))
        if not leaves or not all(isinstance(v, TensorValue) and v.cls is torch.Tensor for v in leaves):
            raise _native(tx, "whose results are no tensors")
        tensors = [v for v in leaves if isinstance(v, TensorValue)]
        scope.graph.output(tuple(tx.builder.node_here(v.node) for v in tensors))
    return _Branch(scope, result, tensors)


def _check_results(tx: Tracer, branches: Sequence[_Branch]) -> None:
    one, other = branches
    if structure_of(tx, one.result) != structure_of(tx, other.result):
        raise _native(tx, "whose branches give different structures")
    for a, b in zip(one.leaves, other.leaves, strict=True):
        if _layout(a) != _layout(b):
            raise _native(tx, "whose branches give different tensors")
    for branch in branches:
        read = branch.scope.order
        if any(branch.scope.version_of(n) != branch.scope.versions[n] for n in read):
            raise _native(tx, "whose branch writes to what it is given")
        if any(isinstance(n.meta["val"], torch.Tensor) and n.meta["val"].is_inference() for n in read):
            raise _native(tx, "with inference tensors")
        memory = [_storage(n.meta["val"]) for n in read if isinstance(n.meta["val"], torch.Tensor)]
        for v in branch.leaves:
            if _storage(v.fake) in memory:
                raise _native(tx, "whose branch gives what shares memory with something else")
            memory.append(_storage(v.fake))


def _storage(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


def _layout(v: TensorValue) -> tuple[Any, ...]:
    t = v.fake
    return tuple(t.shape), t.stride(), t.dtype, t.device, t.storage_offset()


def _emitted(tx: Tracer, predicate: TensorValue, branches: Sequence[_Branch]) -> Value:
    read = list(dict.fromkeys(n for b in branches for n in b.scope.order if isinstance(n.meta["val"], torch.Tensor)))
    bodies = [tx.attribute_for(body_of(b.scope, (), read, partial(_native, tx)), None) for b in branches]
    args = (tx.to_fx(predicate), *bodies, *(tx.builder.node_here(n) for n in read))
    out = tx.builder.propagate("call_function", graph_helpers.cond, args, {})
    node = tx.add_node("call_function", graph_helpers.cond, args, {}, out)
    outputs = tx.wrap_output(node, out)
    assert isinstance(outputs, TupleValue)
    return filled(tx, branches[0].result, iter(tx.items(outputs.items)))
