"""Edits of single operations: fewer arguments, plainer literals, a plainer operation in the place of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from minifier.engine import Choices, Pass
from minifier.graph import edits
from minifier.graph.inputs import propagated
from minifier.graph.ir import Graph, Node, Ref, Tensor, leaves, mapped

# what an operation may become: the plainest of one and of two operands, in the words of the graph it is in
_PLAIN = {"torch.ops.aten.": ("torch.ops.aten.neg.default", "torch.ops.aten.add.Tensor"), "": ("torch.neg", "torch.add")}
_RANK = {target: rank for targets in _PLAIN.values() for rank, target in enumerate(targets)}


def operation_pass() -> Pass[Graph]:
    """Operations become `neg` of their first operand or `add` of two, where that looks the same."""
    return Choices("operations", _node_ids, _operations)


def argument_pass() -> Pass[Graph]:
    """Keyword arguments and constant last arguments go; other literals become 0, 1 or False."""
    return Choices("arguments", _node_ids, _arguments)


def cost(graph: Graph) -> tuple[int, int, float]:
    """Ranks of operations, count of arguments, and how large literals are: smaller is plainer."""
    literals = [leaf for n in graph.nodes for leaf in leaves((n.args, tuple(v for _, v in n.kwargs)))]
    return (
        sum(_RANK.get(n.target, 2) for n in graph.nodes),
        sum(len(n.args) + len(n.kwargs) for n in graph.nodes),
        sum(_magnitude(v) for v in literals),
    )


def _magnitude(value: Any) -> float:
    if isinstance(value, bool):
        return 0.5 * value
    if isinstance(value, int):
        return abs(value)
    if isinstance(value, float):
        return 0.0 if value == 0 else 1.0 if value == 1 else 1.0 + len(repr(value))
    return 0.0


def _node_ids(graph: Graph) -> Sequence[Hashable]:
    return [n.id for n in reversed(graph.nodes)]


def _node(graph: Graph, site: Hashable) -> Node:
    return next(n for n in graph.nodes if n.id == site)


def _with(graph: Graph, node: Node) -> Graph | None:
    nodes = [node if n.id == node.id else n for n in graph.nodes]
    made = edits.rebuilt(graph, nodes, graph.outputs)
    return None if made is None else propagated(made)


def _operations(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
    node = _node(graph, site)
    same = [Ref(r) for r in node.reads if isinstance(node.spec, Tensor) and node.spec.fits(graph.specs[r])]
    one, two = _PLAIN["torch.ops.aten." if node.target.startswith("torch.ops.aten.") else ""]
    plain: list[tuple[str, tuple[Ref, ...]]] = [(one, (same[0],))] if same else []
    if len(same) > 1:
        plain.append((two, (same[0], same[1])))
    made = [(t, _with(graph, replace(node, op="function", target=t, args=args, kwargs=()))) for t, args in plain if t != node.target]
    return [(target, g) for target, g in made if g is not None]


def _arguments(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
    node = _node(graph, site)
    found: list[tuple[str, Node]] = []
    for name, value in node.kwargs:
        if not _reads(value):
            found.append((f"without {name}", replace(node, kwargs=tuple((k, v) for k, v in node.kwargs if k != name))))
    if len(node.args) > 1 and not _reads(node.args[-1]):
        found.append(("without the last argument", replace(node, args=node.args[:-1])))
    count = sum(isinstance(v, float) or v is True for v in leaves((node.args, node.kwargs)))
    for at in range(count):
        for plain in (0.0, 1.0):
            found.append((f"literal {at} = {plain}", _plainer(node, at, plain)))
    made = [(label, _with(graph, n)) for label, n in found if n != node]
    return [(label, g) for label, g in made if g is not None]


def _reads(value: Any) -> bool:
    return any(isinstance(v, Ref) for v in leaves(value))


def _plainer(node: Node, at: int, plain: float) -> Node:
    """The node with its literal number `at`, of floats and Trues, made plain."""
    count = -1

    def change(value: Any) -> Any:
        nonlocal count
        if not isinstance(value, float) and value is not True:
            return value
        count += 1
        if count != at:
            return value
        return plain if isinstance(value, float) else False

    return replace(node, args=mapped(node.args, change), kwargs=mapped(node.kwargs, change))
