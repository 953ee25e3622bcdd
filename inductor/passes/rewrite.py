"""Rewrites of the ATen graph before lowering.

In: a functional ATen graph with fake values in `meta["val"]`. Out: the same function of the inputs with fewer or cheaper nodes. First
the rows of `TABLE` look at every node in order, then the passes over the whole graph follow. Every replacement passes the fuel
counter as `passes: <row> <node>`. Attention is matched before differentiation, see `attention.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.aot.facts import attribute
from dynamo.decisions import decide
from dynamo.faults import through
from dynamo.ops.facts import is_view
from inductor.passes import algebra, constants, redundant, views
from inductor.passes.convolution import multiply_pixels, pack_convolutions
from inductor.passes.fused_convolution import fuse_convolutions
from inductor.passes.layout import channels_last
from inductor.passes.redundant import drop_unused
from inductor.passes.row import Call, Replacement, Row, Seen, aten, by_target, called
from inductor.passes.together import count_together

TABLE: tuple[Row, ...] = (*views.ROWS, *algebra.ROWS, *constants.ROWS, *redundant.ROWS)
LIMIT = 8  # replacements of one node after another: rows shrink what they match, so more would be a row that does not

_rows_of = by_target(TABLE)


def rewrite(gm: GraphModule) -> GraphModule:
    """A rewritten copy of the graph; the original stays as it was (it is what runs when a build fails)."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    output = graph.graph_copy(gm.graph, copies)
    graph.output(output)
    for old, new in copies.items():
        new.meta = old.meta
    _copy_output_meta(gm, graph)
    attributes = {str(n.target): attribute(gm, str(n.target)) for n in graph.nodes if n.op == "get_attr"}
    seen = Seen({})
    for shown in next(iter(reversed(graph.nodes))).all_input_nodes:
        seen.show(shown)
    for node in list(graph.nodes):
        if node.op == "call_function":
            apply_rows(node, seen, attributes)
    drop_unused(graph)
    count_together(graph)
    if gm.meta.get("is_inference"):
        multiply_pixels(graph)
        static = unchanging(graph, gm.meta.get("static_inputs", ()))
        if pack_convolutions(graph, static):
            channels_last(graph)
        fuse_convolutions(graph, static)
        drop_unused(graph)
    return GraphModule(attributes, graph)


def apply_rows(node: Node, seen: Seen, attributes: dict[str, Any]) -> None:
    """Replace the node by what the first row with an answer and fuel says, and that in turn if it is a new node."""
    for _ in range(LIMIT):
        for row in through("rewrite", _rows_of(node.target), node):
            found = row.function(node, seen)
            if (
                found is None
                or found is node
                or is_written(found)
                or lies_elsewhere(found, node)
                or not decide("passes", f"{row.name} {node.name}")
            ):
                continue
            made = placed(found, node, seen, attributes)
            if node in seen.shown:
                seen.show(made)
            node.replace_all_uses_with(made)
            node.graph.erase_node(node)
            if not isinstance(found, Call):
                return
            node = made
            break
        else:
            return


def is_written(found: Replacement) -> bool:
    """An input that the graph writes to: its value may be read later only as a copy."""
    if not isinstance(found, Node) or found.op != "placeholder":
        return False
    return any(write.args[0] is found for write in found.graph.find_nodes(op="call_function", target=aten.copy_.default, sort=False))


def lies_elsewhere(found: Replacement, node: Node) -> bool:
    """Something that starts elsewhere in its memory, for a new tensor that `as_strided` reads: it counts from where the memory begins."""
    if not isinstance(found, Node) or is_view(node.target) or not isinstance(found.meta.get("val"), torch.Tensor):
        return False
    return bool(found.meta["val"].storage_offset() != node.meta["val"].storage_offset()) and _is_read_by_place(node)


def _is_read_by_place(node: Node) -> bool:
    reads = (aten.as_strided.default, aten.as_strided_scatter.default)
    return any(called(user, *reads) or (is_view(user.target) and _is_read_by_place(user)) for user in node.users)


def placed(found: Replacement, node: Node, seen: Seen, attributes: dict[str, Any]) -> Node:
    """The node that stands for another, made just before it where it is not there yet."""
    if isinstance(found, Node):
        return found
    with node.graph.inserting_before(node):
        if isinstance(found, Call):
            made = node.graph.call_function(found.target, found.args, dict(found.kwargs))
        else:
            assert isinstance(found, torch.Tensor)
            name = f"constant_{len(attributes)}"
            attributes[name] = found
            made = node.graph.create_node("get_attr", name)
    made.meta = node.meta
    if node in seen.constants:
        seen.constants[made] = seen.constants[node]
    return made


def unchanging(graph: Graph, positions: Iterable[int]) -> frozenset[Node]:
    """The inputs at these positions that the graph does not write to."""
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    return frozenset(inputs[i] for i in positions if not any(u.target is aten.copy_.default for u in inputs[i].users))


def _copy_output_meta(gm: GraphModule, graph: Graph) -> None:
    next(iter(reversed(graph.nodes))).meta = dict(next(iter(reversed(gm.graph.nodes))).meta)
