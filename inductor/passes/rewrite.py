"""Rewrites of the ATen graph before lowering: rows of (name, function).

In: a functional ATen graph with fake values in `meta["val"]`. Out: the same function of the inputs with fewer nodes. A row
takes one node and returns the node that may replace it, or None. Every replacement passes the fuel counter as
`passes: <row> <node>`. Rows never change what aliases what among the outputs: a node that the output shows is kept.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.decisions import decide
from inductor.passes.convolution import pack_convolutions
from inductor.passes.layout import channels_last

aten = torch.ops.aten


@dataclass
class Seen:
    """What the pass has met so far: the first node of every distinct computation, and whose memory the caller gets to see."""

    first: dict[Hashable, Node]
    shown: set[Node] = field(default_factory=set)

    def show(self, node: Node) -> None:
        """The caller gets this node's memory: the node's own, or that of what it is a view or an item of."""
        while node not in self.shown:
            self.shown.add(node)
            source = node.args[0] if node.args else None
            if not isinstance(source, Node) or not (node.target is operator.getitem or is_view(node)):
                return
            node = source


Rewrite = Callable[[Node, Seen], Node | None]


def is_shown(node: Node) -> bool:
    return any(user.op == "output" for user in node.users)


def is_view(node: Node) -> bool:
    """May its result share memory with its first argument? `reshape` and `contiguous` do so or copy."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)


def same_facts(a: Node, b: Node) -> bool:
    """Equal shape, strides and dtype."""
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    return x.shape == y.shape and x.dtype == y.dtype and x.stride() == y.stride() and x.device == y.device


NO_OPS = frozenset(
    {
        aten.clone.default,
        aten._to_copy.default,
        aten.expand.default,
        aten.view.default,
        aten.permute.default,
        aten.slice.Tensor,
        aten.alias.default,
    }
)


def no_op(node: Node, seen: Seen) -> Node | None:
    """view(x, x.shape), x.to(x.dtype), clone(x), x[:]: the operand itself, where nobody sees the difference."""
    source = node.args[0] if node.args else None
    if node.target not in NO_OPS or not isinstance(source, Node) or is_shown(node) or not same_facts(node, source):
        return None
    if node in seen.shown and not is_view(node):
        return None
    if node.target is aten.permute.default and list(node.args[1]) != sorted(node.args[1]):  # type: ignore[arg-type]
        return None
    if node.target is aten.slice.Tensor and source.meta["val"].storage_offset() != node.meta["val"].storage_offset():
        return None
    return source


def view_of_view(node: Node, seen: Seen) -> Node | None:
    """view(view(x, a), b) = view(x, b)."""
    source = node.args[0] if node.args else None
    views = (aten.view.default, aten._unsafe_view.default)
    if node.target not in views or not isinstance(source, Node) or source.target not in views or is_shown(source):
        return None
    node.replace_input_with(source, source.args[0])  # type: ignore[arg-type]
    return node


def frozen(tree: Any) -> Hashable:
    """Arguments as a hashable key that tells 1, 1.0 and True apart."""
    if isinstance(tree, (list, tuple)):
        return tuple(frozen(t) for t in tree)
    if isinstance(tree, dict):
        return tuple((k, frozen(v)) for k, v in sorted(tree.items()))
    if isinstance(tree, slice):
        return ("slice", frozen(tree.start), frozen(tree.stop), frozen(tree.step))
    return (type(tree).__name__, repr(tree) if isinstance(tree, float) else tree)


def common(node: Node, seen: Seen) -> Node | None:
    """A second computation of the same value; random and changing operators are never the same twice."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return None
    key = (node.target, frozen(node.args), frozen(dict(node.kwargs)))
    found = seen.first.setdefault(key, node)
    return found if found is not node and not (node in seen.shown and found in seen.shown) else None


ROWS: tuple[tuple[str, Rewrite], ...] = (("view of view", view_of_view), ("no-op", no_op), ("common", common))


def rewrite(gm: GraphModule) -> GraphModule:
    """A rewritten copy of the graph; the original stays as it was (it is what runs when a build fails)."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph.graph_copy(gm.graph, copies)
    graph.output(output)
    for old, new in copies.items():
        new.meta = old.meta
    _copy_output_meta(gm, graph)
    seen = Seen({})
    for shown in next(iter(reversed(graph.nodes))).all_input_nodes:
        seen.show(shown)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        for name, row in ROWS:
            replacement = row(node, seen)
            if replacement is None or replacement is node:
                continue
            if decide("passes", f"{name} {node.name}"):
                if node in seen.shown:
                    seen.show(replacement)
                node.replace_all_uses_with(replacement)
                graph.erase_node(node)
                break
    drop_unused(graph)
    if gm.meta.get("is_inference") and pack_convolutions(graph, unchanging(graph, gm.meta.get("static_inputs", ()))):
        channels_last(graph)
    return GraphModule(gm, graph)


def unchanging(graph: Graph, positions: Iterable[int]) -> frozenset[Node]:
    """The inputs at these positions that the graph does not write to."""
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    return frozenset(inputs[i] for i in positions if not any(u.target is aten.copy_.default for u in inputs[i].users))


def _copy_output_meta(gm: GraphModule, graph: Graph) -> None:
    next(iter(reversed(graph.nodes))).meta = dict(next(iter(reversed(gm.graph.nodes))).meta)


def drop_unused(graph: Graph) -> None:
    """Remove nodes without users. Operators without results (checks) and those that change arguments act on their own."""
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node.users:
            continue
        schema = getattr(node.target, "_schema", None)
        acts = schema is not None and (schema.is_mutable or not schema.returns)
        random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        if not acts and not random:
            graph.erase_node(node)
