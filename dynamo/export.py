"""`export`: one graph of a function for these inputs, callable as the function is; a graph break is an error."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from dynamo.api import context_for
from dynamo.capture import Captured, capture
from dynamo.errors import CompileError, GraphBreakError
from dynamo.guards import build, guard_text
from dynamo.symbolic.errors import BreakError, NotConstant
from dynamo.symbolic.values import (
    DictValue,
    Lazy,
    ListValue,
    TensorValue,
    TupleValue,
    Value,
)


class ExportResult(NamedTuple):
    """The graph and the facts it relies on, as (source, check) texts."""

    graph_module: GraphModule
    guards: list[tuple[str, str]]


class ExportError(CompileError):
    """The function is one graph, but not a function of its arguments alone."""

    id = "DD094"


def export(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`export(f, *args)` or `export(f)(*args)`: (graph_module, guards).

    The module takes the same arguments and gives the same result structure.

    Raises GraphBreakError for a break, ExportError when `f` changes objects of its caller.
    """
    if args or kwargs:
        return _export(f, args, kwargs)
    return lambda *a, **k: _export(f, a, k)


def _export(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportResult:
    root = _root_function(f)
    compiled = context_for("eager").compiled(root)
    inputs = compiled.bind((args, kwargs), {})
    try:
        captured = capture(root, inputs, fullgraph=True)
    except BreakError as e:
        raise GraphBreakError(e) from e.cause
    if captured.result is None:
        raise ExportError(f"{getattr(f, '__name__', f)} raises for these inputs: {captured.reason} [DD094]")
    tx = captured.tx
    if tx.mutated or tx.global_writes:
        changed = ", ".join(v.describe() for v in tx.mutated.values()) or ", ".join(n for _, n, _ in tx.global_writes.values())
        raise ExportError(f"export needs a function without side effects, this one changes {changed} [DD094]")
    gm = _graph_module(captured, args, kwargs)
    guards = build(list(tx.guards.values()), [], captured.state)
    return ExportResult(gm, [guard_text(r) for r in guards.records])


def _root_function(f: Callable[..., Any]) -> types.FunctionType:
    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return f(*args, **kwargs)

    assert isinstance(call, types.FunctionType)
    return call


def _graph_module(captured: Captured, args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphModule:
    """The captured graph with one placeholder per leaf of (args, kwargs) and the result's own structure."""
    tx = captured.tx
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    index = {id(leaf): i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    graph = Graph()
    inputs = [graph.placeholder(f"arg{i}") for i in range(len(leaves))]
    attributes = dict(tx.attributes)
    env: dict[Node, Node] = {}
    for node, v in tx.placeholders:
        i = index.get(id(v.obj))
        if i is None:
            attributes[node.name] = v.obj
            env[node] = graph.get_attr(node.name)
        else:
            env[node] = inputs[i]
    for node in tx.graph.nodes:
        if node not in env and node.op not in ("placeholder", "output"):
            env[node] = graph.node_copy(node, lambda n: env[n])
    assert captured.result is not None
    result = _structure(captured, captured.result)
    out_leaves, out_spec = pytree.tree_flatten(result)
    graph.output([env[x] if isinstance(x, Node) else x for x in out_leaves])
    names = [f"arg{i}" for i in range(len(args))]
    graph._codegen = _PyTreeCodeGen(_PyTreeInfo([*names, *kwargs], in_spec, out_spec))
    holder = torch.nn.Module()
    for name, obj in attributes.items():
        setattr(holder, name, obj)
    return GraphModule(holder, graph)


def _structure(captured: Captured, v: Value | Lazy) -> Any:
    """The result with nodes for tensors."""
    tx = captured.tx
    v = tx.realize(v)
    if isinstance(v, TensorValue):
        return v.node
    if isinstance(v, TupleValue):
        parts = [_structure(captured, x) for x in v.items]
        return v.cls(*parts) if hasattr(v.cls, "_fields") else tuple(parts)
    if isinstance(v, ListValue):
        return [_structure(captured, x) for x in v.items]
    if isinstance(v, DictValue):
        items = {tx.as_python(k): _structure(captured, x) for k, x in v.table.values()}
        if v.cls is dict:
            return items
        made: Any = object.__new__(v.cls) if not issubclass(v.cls, dict) else dict.__new__(v.cls)
        for k, x in items.items():
            dict.__setitem__(made, k, x)
        return v.cls(**items) if isinstance(made, dict) and hasattr(v.cls, "__dataclass_fields__") else made
    try:
        return tx.as_python(v)
    except NotConstant as e:
        raise ExportError(f"the result holds {v.describe()}, which is no tensor, number, string or container of them [DD094]") from e
