"""Counters that a graph counts up, such as those of its batch norms, as one call over all of them.

In: `copy_(counter, counter + 1)` for tensors of one element that the graph is given. Out: one `_foreach_add` of all that get the same
number, which becomes one kernel. Each would take a kernel of its own, of which nearly all is the time to start it.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable

import torch
from torch.fx import Graph, Node

from dynamo.decisions import decide

aten = torch.ops.aten


def count_together(graph: Graph) -> None:
    """On devices where starting a kernel takes longer than counting."""
    found: dict[Hashable, list[Node]] = {}
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor, sort=True):
        if is_counter(node):
            val = node.meta["val"]
            found.setdefault((node.args[1], val.dtype, val.device, tuple(val.shape)), []).append(node)
    for counts in found.values():
        if len(counts) > 1 and decide("passes", f"count {len(counts)} together at {counts[0].name}"):
            replace(graph, counts)


def is_counter(node: Node) -> bool:
    val, (counter, *step) = node.meta["val"], node.args
    if val.device.type == "cpu" or val.numel() != 1 or not isinstance(counter, Node) or counter.op != "placeholder":
        return False
    if len(step) != 1 or not isinstance(step[0], (int, float)) or node.kwargs or len(node.users) != 1:
        return False
    write = next(iter(node.users))
    return write.target is aten.copy_.default and write.args[:2] == (counter, node)


def replace(graph: Graph, counts: list[Node]) -> None:
    with graph.inserting_before(min(next(iter(n.users)) for n in counts)):
        every = graph.call_function(aten._foreach_add.Scalar, ([n.args[0] for n in counts], counts[0].args[1]))
        every.meta = {**counts[0].meta, "val": [n.meta["val"] for n in counts]}
        for k, node in enumerate(counts):
            item = graph.call_function(operator.getitem, (every, k))
            item.meta = node.meta
            node.replace_all_uses_with(item)
            graph.erase_node(node)
