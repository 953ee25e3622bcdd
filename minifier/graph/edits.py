"""Edits of the operations of a graph. Any set of nodes that stays is a graph:

    cut     values that entered what stays become inputs
    bypass  they become an earlier value that looks the same and that they were computed from, else inputs
    both    values that lose their last reader become results
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minifier.graph.ir import Graph, Input, Node, Number, Ref, Tensor, mapped

_REACH = 16  # values that are looked at to find one to bypass to


def cut(graph: Graph, ids: Sequence[int]) -> Graph | None:
    """Without these nodes. None where nothing would stay."""
    return _without(graph, set(ids), {})


def bypass(graph: Graph, ids: Sequence[int]) -> Graph | None:
    """Without these nodes, each replaced by what it came from where that looks the same. None where nothing could be."""
    gone = set(ids)
    instead = _instead(graph, gone)
    return _without(graph, gone, instead) if instead else None


def drop_outputs(graph: Graph, ids: Sequence[int]) -> Graph | None:
    """Without these results, which others read: what nobody reads stays a result."""
    outputs = tuple(o for o in graph.outputs if o not in set(ids) or not graph.users[o])
    return replace(graph, outputs=outputs) if outputs and len(outputs) < len(graph.outputs) else None


def merge_inputs(graph: Graph, gone: int, kept: int) -> Graph | None:
    """With one input read in the place of another that looks the same."""
    if any(i.base == gone for i in graph.inputs):
        return None
    inputs = tuple(i for i in graph.inputs if i.id != gone)
    return Graph(inputs, tuple(_reading(n, {gone: kept}) for n in graph.nodes), graph.outputs)


def rebuilt(graph: Graph, nodes: Sequence[Node], outputs: Sequence[int]) -> Graph | None:
    """The graph of other nodes over the values of `graph`. What has lost its last reader becomes a result, or goes if it can't be one.

    Nodes that nobody ever read stay: they may write to what they are given. None where nothing would stay.
    """
    wanted = set(outputs)
    read: set[int] = set()
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.id not in read and node.id not in wanted and graph.users[node.id]:
            if not isinstance(node.spec, Tensor):
                continue
            wanted.add(node.id)
        read.update(node.reads)
        kept.append(node)
    kept.reverse()
    results = tuple(n.id for n in kept if n.id in wanted)
    return Graph(_inputs(graph, kept), tuple(kept), results) if kept else None


def _instead(graph: Graph, gone: set[int]) -> dict[int, int]:
    """For nodes that go and are needed: a value that stays, that they were computed from, and that looks the same."""
    entering: dict[int, list[int]] = {}
    found: dict[int, int] = {}
    for node in graph.nodes:
        if node.id not in gone:
            continue
        reach: dict[int, None] = {}
        for read in node.reads:
            reach.update(dict.fromkeys(entering[read] if read in gone else [read]))
        entering[node.id] = list(reach)[:_REACH]
        if isinstance(node.spec, Tensor):
            same = [v for v in entering[node.id] if node.spec.fits(graph.specs[v])]
            if same:
                found[node.id] = same[0]
    return found


def _reading(node: Node, instead: dict[int, Any]) -> Node:
    """The node with other values, or constants, in the place of some."""
    if not any(read in instead for read in node.reads):
        return node

    def change(value: Any) -> Any:
        if not isinstance(value, Ref) or value.id not in instead:
            return value
        new = instead[value.id]
        return new.value if isinstance(new, Number) else Ref(new)

    return replace(node, args=mapped(node.args, change), kwargs=mapped(node.kwargs, change))


def _without(graph: Graph, gone: set[int], instead: dict[int, int]) -> Graph | None:
    """What stays of a graph. Nodes that read something that can be neither input nor constant go too."""
    gone = set(gone)
    for node in graph.nodes:
        if node.id not in gone and any(read in gone and not _can_enter(graph, read, instead) for read in node.reads):
            gone.add(node.id)
    replaced: dict[int, Any] = {g: instead[g] for g in gone if g in instead}
    replaced.update({g: s for g in gone if g not in instead and isinstance(s := graph.specs[g], Number)})
    nodes = [_reading(n, replaced) for n in graph.nodes if n.id not in gone]
    kept = [replaced.get(o, o) for o in graph.outputs]
    return rebuilt(graph, nodes, [o for o in kept if isinstance(o, int) and o not in gone])


def _can_enter(graph: Graph, value: int, instead: dict[int, int]) -> bool:
    return value in instead or isinstance(graph.specs[value], (Tensor, Number))


def _inputs(graph: Graph, nodes: Sequence[Node]) -> tuple[Input, ...]:
    """What is read and not computed: inputs that were, then values that were computed, in the order they are read."""
    computed = {n.id for n in nodes}
    needed = dict.fromkeys(read for n in nodes for read in n.reads if read not in computed)
    before = {i.id: i for i in graph.inputs}
    for id in list(needed):
        while id in before and (base := before[id].base) is not None:
            needed[base] = None
            id = base
    old = [i for i in graph.inputs if i.id in needed]
    return (*old, *(_as_input(graph.by_id[id]) for id in needed if id not in before))


def _as_input(node: Node) -> Input:
    assert isinstance(node.spec, Tensor)
    return Input(node.id, node.name, node.spec, node.recipe, requires_grad=node.requires_grad)
