"""Work done twice, and work for nothing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch.fx import Graph, Node

from dynamo.ops.facts import acts, must_run
from inductor.passes.row import Replacement, Row, Seen, row


def frozen(tree: Any) -> Hashable:
    """Arguments as a hashable key that tells 1, 1.0 and True apart."""
    if isinstance(tree, (list, tuple)):
        return tuple(frozen(t) for t in tree)
    if isinstance(tree, dict):
        return tuple((k, frozen(v)) for k, v in sorted(tree.items()))
    if isinstance(tree, slice):
        return ("slice", frozen(tree.start), frozen(tree.stop), frozen(tree.step))
    return (type(tree).__name__, repr(tree) if isinstance(tree, float) else tree)


def common(node: Node, seen: Seen) -> Replacement:
    """A second computation of the same value. What an operator does besides is never the same twice: a draw, a write, a user's operator."""
    if acts(node.target) or getattr(node.target, "_schema", None) is None:
        return None
    key = (node.target, frozen(node.args), frozen(dict(node.kwargs)))
    found = seen.first.setdefault(key, node)
    return found if found is not node and not (node in seen.shown and found in seen.shown) else None


ROWS: tuple[Row, ...] = (row("common", common),)


def drop_unused(graph: Graph) -> None:
    """Remove nodes that nothing reads and that do nothing besides."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not must_run(node):
            graph.erase_node(node)
