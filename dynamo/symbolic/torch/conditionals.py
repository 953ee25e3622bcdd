"""`torch.cond` as one node: `graph_helpers.cond(predicate, true body, false body, *operands)`, each branch a graph of its own.

Torch runs `cond` by its own compiler, in eager too. What that refuses (branches that write to what they are given, that alias it, whose
results differ), and what this one can't put into a graph, is a break: eager runs such a call, and raises what it raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.graph import helpers as graph_helpers
from dynamo.symbolic.attempt.graph import Scope
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.protocols.registry import function
from dynamo.symbolic.protocols.tables import dict_set
from dynamo.symbolic.torch.regions import pure_region
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import Const, DictValue, ListValue, TensorValue, TupleValue, Value

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
        if any(not isinstance(v, TensorValue) for v in _flat(tx, item)):
            raise _native(tx, "with operands that are no tensors")


def _flat(tx: Tracer, v: Value) -> Iterator[Value]:
    """The leaves of a structure of lists, tuples and dicts."""
    if isinstance(v, ListValue | TupleValue) and v.cls in (list, tuple):
        for item in tx.items(v.items):
            yield from _flat(tx, item)
    elif isinstance(v, DictValue) and v.cls is dict:
        for _, x in v.table.values():
            yield from _flat(tx, tx.realize(x))
    else:
        yield v


def _traced(tx: Tracer, fn: Value, operands: list[Value]) -> _Branch:
    with pure_region(tx, f"{fn.describe()} under cond", "branch", partial(_native, tx)) as scope:
        result = tx_call(tx, fn, operands, {})
        leaves = list(_flat(tx, result))
        if not leaves or not all(isinstance(v, TensorValue) and v.cls is torch.Tensor for v in leaves):
            raise _native(tx, "whose results are no tensors")
        tensors = [v for v in leaves if isinstance(v, TensorValue)]
        scope.graph.output(tuple(tx.builder.node_here(v.node) for v in tensors))
    return _Branch(scope, result, tensors)


def _check_results(tx: Tracer, branches: Sequence[_Branch]) -> None:
    one, other = branches
    if _shape(tx, one.result) != _shape(tx, other.result):
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


def _shape(tx: Tracer, v: Value) -> Any:
    """The structure of a result, without its tensors."""
    if isinstance(v, ListValue | TupleValue):
        return (v.cls, *[_shape(tx, x) for x in tx.items(v.items)])
    if isinstance(v, DictValue):
        return (dict, *[(key, _shape(tx, tx.realize(x))) for key, (_, x) in v.table.items()])
    return None


def _emitted(tx: Tracer, predicate: TensorValue, branches: Sequence[_Branch]) -> Value:
    read = list(dict.fromkeys(n for b in branches for n in b.scope.order if isinstance(n.meta["val"], torch.Tensor)))
    bodies = [tx.attribute_for(_body(tx, b.scope, read), None) for b in branches]
    args = (tx.to_fx(predicate), *bodies, *(tx.builder.node_here(n) for n in read))
    out = tx.builder.propagate("call_function", graph_helpers.cond, args, {})
    node = tx.add_node("call_function", graph_helpers.cond, args, {}, out)
    outputs = tx.wrap_output(node, out)
    assert isinstance(outputs, TupleValue)
    return _filled(tx, branches[0].result, iter(tx.items(outputs.items)))


def _body(tx: Tracer, scope: Scope, read: Sequence[Node]) -> GraphModule:
    """The branch over all that either branch reads. Graphs inside it are attributes of its own."""
    root, graph = torch.nn.Module(), Graph()
    env: dict[Node, Node] = {}
    stands_for = dict(zip(scope.placeholders, scope.order, strict=True))
    places = {n: graph.placeholder(n.name) for n in read}
    for outer, place in places.items():
        place.meta.update(outer.meta)
    for node in scope.graph.nodes:
        if node.op != "placeholder":
            env[node] = graph.node_copy(node, env.__getitem__)
            continue
        outer = stands_for[node]
        held = outer.meta["val"]
        if isinstance(held, torch.Tensor):
            env[node] = places[outer]
        elif isinstance(held, GraphModule):
            setattr(root, outer.name, held)
            env[node] = graph.get_attr(outer.name)
            env[node].meta.update(outer.meta)
        else:
            raise _native(tx, f"whose branch uses a {type(held).__name__}")
    return GraphModule(root, graph, "CondBranch")


def _filled(tx: Tracer, v: Value, leaves: Iterator[Value]) -> Value:
    """The structure of a result with other tensors in it."""
    if isinstance(v, ListValue | TupleValue):
        items = [_filled(tx, x, leaves) for x in tx.items(v.items)]
        return tx.make_list(items) if v.cls is list else tx.make_tuple(items)
    if isinstance(v, DictValue):
        d = DictValue()
        for key, x in v.table.values():
            dict_set(tx, d, key, _filled(tx, tx.realize(x), leaves))
        return d
    return next(leaves)
