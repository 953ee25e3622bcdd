"""Real objects for values in the middle of a trace: for functions whose result is assumed constant, which run while tracing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Interpreter

from dynamo.symbolic.protocols.constants import as_python, make_tuple
from dynamo.symbolic.protocols.tables import dict_items
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.kinds import DictValue, ListValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def real_objects(tx: Tracer, values: list[Value]) -> list[Any]:
    """Objects for these values. Raises NotConstant.

    Tensors that the trace made are computed: the graph so far runs on copies of the example's inputs, with its own random numbers.
    """
    wanted = [v for v in _tensors(tx, values) if not _is_untouched(tx, v)]
    computed = _run(tx, wanted) if wanted else {}
    return [_object(tx, v, computed) for v in values]


def _tensors(tx: Tracer, values: list[Value]) -> list[TensorValue]:
    found = []
    for v in values:
        if isinstance(v, TensorValue):
            found.append(v)
        elif isinstance(v, ListValue | TupleValue):
            found += _tensors(tx, tx.items(v.items))
        elif isinstance(v, DictValue) and v.cls is dict:
            found += _tensors(tx, [x for _, x in dict_items(tx, v)])
    return found


def _is_untouched(tx: Tracer, v: TensorValue) -> bool:
    return v.obj is not None and v.node.op in ("placeholder", "get_attr") and v.node.graph is tx.builder.root


def _run(tx: Tracer, wanted: list[TensorValue]) -> dict[int, Any]:
    if tx.builder.scopes:
        raise NotConstant("a tensor inside a region")
    graph = torch.fx.Graph()
    env: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(tx.builder.root, env)
    graph.output(tuple(env[v.node] for v in wanted))
    holder = torch.nn.Module()
    for name, obj in tx.builder.attributes.items():
        setattr(holder, name, _copy(obj))
    inputs = [_copy(v.obj) for _, v in tx.builder.placeholders]
    with torch.random.fork_rng(devices=[]):
        outputs = Interpreter(GraphModule(holder, graph)).run(*inputs)
    return {id(v): out.detach() for v, out in zip(wanted, outputs, strict=True)}


def _copy(obj: Any) -> Any:
    return obj.detach().clone().requires_grad_(obj.requires_grad) if isinstance(obj, torch.Tensor) else obj


def _object(tx: Tracer, v: Value, computed: dict[int, Any]) -> Any:
    if isinstance(v, TensorValue):
        return computed.get(id(v), v.obj)
    if isinstance(v, TupleValue):
        return make_tuple(v.cls, [_object(tx, x, computed) for x in tx.items(v.items)])
    if isinstance(v, ListValue) and v.cls is list:
        return [_object(tx, x, computed) for x in tx.items(v.items)]
    if isinstance(v, DictValue) and v.cls is dict and v.owner is None:
        return {as_python(tx, k): _object(tx, x, computed) for k, x in dict_items(tx, v)}
    try:
        return as_python(tx, v)
    except NotConstant:
        obj = getattr(v, "obj", None)
        if obj is None or id(v) in tx.effects.mutated:
            raise
        return obj
