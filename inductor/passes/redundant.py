"""Work done twice, and work for nothing."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from torch.fx import Graph, Node

from inductor.passes.row import Replacement, Row, Seen, is_random, row


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
    """A second computation of the same value; random and changing operators are never the same twice."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.is_mutable or is_random(node):
        return None
    key = (node.target, frozen(node.args), frozen(dict(node.kwargs)))
    found = seen.first.setdefault(key, node)
    return found if found is not node and not (node in seen.shown and found in seen.shown) else None


ROWS: tuple[Row, ...] = (row("common", common),)


def drop_unused(graph: Graph) -> None:
    """Remove nodes without users. Operators without results (checks) and those that change arguments act on their own."""
    for node in reversed(list(graph.nodes)):
        if node.op not in ("call_function", "get_attr") or node.users:
            continue
        schema = getattr(node.target, "_schema", None)
        acts = schema is not None and (schema.is_mutable or not schema.returns)
        if not acts and not (node.op == "call_function" and is_random(node)):
            graph.erase_node(node)
