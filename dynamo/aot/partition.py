"""Splitting the joint graph: what the forward saves for the backward, and what the backward computes again.

Saving costs memory traffic, recomputing costs time; a minimum cut between what can't be recomputed and what the backward reads
finds the cheapest set of values to save, as in "Memory-Efficient Training as a Min Cut Problem" (the partitioner of functorch).

Where a parameter stands for an intermediate value that eager would keep, a write to it before the backward is an error
("modified by an inplace operation") that eager doesn't raise; other arguments are kept only if eager keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import reduce
from operator import and_, getitem
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

from dynamo.aot.flow import INFINITE, Network
from dynamo.aot.functionalise import alias_source
from dynamo.aot.joint import Joint
from dynamo.aot.reach import of_results, readers, seen_outside
from dynamo.decisions import decide
from dynamo.fake import FakeTensor
from dynamo.ops.facts import acting, draws, facts_of

aten = torch.ops.aten
_COMPARE = (aten.eq, aten.ne, aten.ge, aten.gt, aten.le, aten.lt)
COMPARISONS = frozenset(op.Tensor for op in _COMPARE)
WITH_NUMBERS = frozenset(op.Scalar for op in _COMPARE)


@dataclass(slots=True)
class Parts:
    """forward returns the results, then `saved_values`; backward takes saved primals, saved values, tangents, in this order.

    `meta["static_inputs"]` of both: positions of inputs that are the same tensors at every call (parameters and buffers).
    `meta["is_inference"]`: there is no backward, so those tensors rarely change.
    """

    forward: GraphModule
    backward: GraphModule | None
    saved_primals: list[int]
    saved_values: int
    recomputed: int = 0
    readers: tuple[int, ...] = ()  # see `Facts`
    seen_outside: tuple[bool, ...] = ()
    depending: tuple[int, ...] = ()


def is_view(node: Node) -> bool:
    return node.op == "call_function" and alias_source(node) is not node


def is_cheap(node: Node) -> bool:
    """May be computed twice: pointwise, a view, a constant."""
    if node.op == "get_attr" or node.target is getitem:
        return True
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload) and facts_of(node.target).cheap


def size_of(node: Node) -> int:
    """Bytes of the node's value; INFINITE if it isn't one tensor."""
    val = node.meta.get("val")
    return val.numel() * val.element_size() if isinstance(val, FakeTensor) else INFINITE


def needed(ends: Iterable[Node], stop: Any = frozenset()) -> set[Node]:
    """The ends and everything they are computed from, not looking behind nodes in `stop`."""
    found: set[Node] = set()
    todo = list(ends)
    while todo:
        node = todo.pop()
        if node in found:
            continue
        found.add(node)
        if node not in stop:
            todo.extend(node.all_input_nodes)
    return found


def inference(joint: Joint) -> Parts:
    """One graph, no backward."""
    forward = _forward(joint, [])
    forward.meta["is_inference"] = True
    return Parts(forward, None, [], 0)


def partition(joint: Joint, strategy: str) -> Parts:
    """Split by `min_cut` or `save_all`."""
    ends = [*(g for g in joint.grads if g is not None), *acting(joint.graph, "backward")]
    behind = needed(ends)
    reads = _read_by_backward(behind, ends)
    reads |= joint.saved.keys() - {alias_source(n) for n in reads}
    witnesses = {n: of_results(joint, mask) for n, mask in joint.showing.items()} | _witnesses(joint, ends)
    chosen = CUTS[strategy](joint, reads, witnesses.keys())
    order = {n: i for i, n in enumerate(joint.graph.nodes)}
    saved = sorted(chosen | witnesses.keys(), key=order.__getitem__)
    primal_of = {p.node: i for i, p in enumerate(joint.primals)}
    changed = {joint.primals[i].node for i in (*joint.written, *joint.returned)}
    saved_primals = [n for n in saved if n in primal_of and n not in changed]
    values = [n for n in saved if not (n in primal_of and n not in changed)]
    again = needed(ends, stop=chosen)
    return Parts(
        _forward(joint, values, witnesses.keys()),
        _backward(joint, ends, saved_primals + values, again, witnesses.keys()),
        [primal_of[n] for n in saved_primals],
        len(values),
        sum(n.meta.get("phase") == "forward" and not is_view(n) and n not in chosen for n in again),
        readers(joint, ends, saved_primals + values, chosen, witnesses),
        seen_outside(joint, saved_primals + values),
        readers(joint, ends, [p.node for p in joint.primals], frozenset()),
    )


def _witnesses(joint: Joint, ends: list[Node]) -> dict[Node, int]:
    """Results of a checkpointed region that another region keeps as its argument, and that a pass from a result behind which that does not
    lie computes again: kept to tell whether they were written to, for passes that run the other region again, as bits."""
    kept = [n for n in joint.saved if "region" in n.meta and not _is_drawn(n)]
    asking = {n: of_results(joint, joint.saved[n]) for n in kept}
    masks = readers(joint, ends, kept, frozenset(kept)) if kept else ()
    return {n: asking[n] for n, mask in zip(kept, masks, strict=True) if mask & ~asking[n]}


def _is_backward(node: Node) -> bool:
    return node.meta.get("phase") in ("backward", "tangent")


def _read_by_backward(behind: set[Node], ends: list[Node]) -> set[Node]:
    reads = {n for node in behind if _is_backward(node) for n in node.all_input_nodes if not _is_backward(n)}
    return reads | {e for e in ends if not _is_backward(e)}


def save_all(joint: Joint, reads: set[Node], remade: AbstractSet[Node]) -> set[Node]:
    """Save what the backward reads, views as their source; constants and regions, `remade` among them, are made again."""
    saved: set[Node] = set()
    todo = list(reads)
    while todo:
        node = todo.pop()
        source = alias_source(node)
        if source.op == "get_attr" or (source.op == "call_function" and not source.all_input_nodes and not draws(source)):
            continue
        if size_of(source) >= INFINITE or ("region" in source.meta and not draws(source)):
            todo.extend(source.all_input_nodes)
            continue
        saved.add(source)
    return saved


def min_cut(joint: Joint, reads: set[Node], remade: AbstractSet[Node]) -> set[Node]:
    """The cheapest set of values from which everything in `reads` can be computed with cheap ops; none of `remade` is among them."""
    nodes = list(needed(reads))
    number = {n: i for i, n in enumerate(nodes)}
    source, sink = 2 * len(nodes), 2 * len(nodes) + 1
    network = Network(sink + 1)
    changed = {joint.primals[i].node for i in (*joint.written, *joint.returned)}
    shown = {alias_source(n) for n in reads}
    returned = shown.intersection(map(alias_source, joint.results))  # also those that it reads views of, which the caller may have, too
    unkept, itself = _unkept(joint, reads), _compared(joint, reads) | _read_alone(joint, reads)
    for node, i in number.items():
        alive = (node.op == "placeholder" and node not in changed) or (node in returned and not is_view(node))
        kept = _cost_of_keeping(node, shown if node in returned else reads) if alive else _saving_cost(node)
        cost = INFINITE if node in unkept or node in remade or (node in returned and _is_made_again(joint, node)) else kept
        network.connect(2 * i, 2 * i + 1, cost)
        if node in itself or not _may_recompute(node):
            network.connect(source, 2 * i, INFINITE)
        if node in reads:
            network.connect(2 * i + 1, sink, INFINITE)
        for user in node.users:
            j = number.get(user)
            if j is not None and not _is_backward(user):
                network.connect(2 * i + 1, 2 * j, INFINITE)
    total, near = network.cut(source, sink)
    if total >= INFINITE:
        return save_all(joint, reads, remade)
    return {n for n, i in number.items() if near[2 * i] and not near[2 * i + 1]}


def _unkept(joint: Joint, reads: set[Node]) -> set[Node]:
    """Arguments and results that no formula reads, and no checkpoint that runs again, but for parameters: eager keeps what was computed
    of them."""
    sources = {alias_source(n) for n in reads}
    given = {alias_source(n) for node in needed(reads) if "region" in node.meta for n in node.all_input_nodes}
    unread = [p for p in joint.primals if p.node not in sources]
    may_stay = [p.is_held or p.node in given or isinstance(p.real, torch.nn.Parameter) for p in unread]
    arguments = {p.node for p, stays in zip(unread, may_stay, strict=True) if p.fake.is_inference() or not stays}
    return arguments if given else arguments | {r for r in map(alias_source, joint.results) if r.op == "call_function" and r not in sources}


def _read_alone(joint: Joint, reads: set[Node]) -> set[Node]:
    """Values that would be computed from an argument or a result, where another result's derivative reads them and not that: eager refuses
    no pass from there if only the former was written to."""
    if len(joint.tangents) < 2:
        return set()
    ends = [g for g in joint.grads if g is not None]
    masks = dict(zip(reads, readers(joint, ends, list(reads), reads), strict=True))
    for node in reversed(joint.graph.nodes):
        if node in masks and "region" in node.meta and not _is_drawn(node):  # what a region is run again from is read as it is
            for n in node.all_input_nodes:
                masks[n] = masks.get(n, 0) | masks[node]
    for node in list(masks):  # a view that is kept shares the memory of its source
        masks[alias_source(node)] = masks.get(alias_source(node), 0) | masks[node]
    arguments = [p.node for p in joint.primals if not p.is_held and not isinstance(p.real, torch.nn.Parameter)]
    own = dict.fromkeys([*arguments, *map(alias_source, joint.results)], 0)
    own |= {n: masks[n] for n in own if n in masks}
    refusing: dict[Node, int] = {}  # per value: results whose derivatives read all that it can be computed from
    found: set[Node] = set()
    for node in joint.graph.nodes:
        above = [refusing[n] for n in node.all_input_nodes if n in refusing]
        if above and is_cheap(node) and not _is_backward(node) and "region" not in node.meta:
            refusing[node] = reduce(and_, above)
            if masks.get(node, 0) & ~refusing[node] and not is_view(node):
                found.add(node)
                del refusing[node]
        if own.get(node):
            refusing[node] = own[node] & refusing.get(node, own[node])
    return found


def _compared(joint: Joint, reads: set[Node]) -> set[Node]:
    """Values that are compared with an extreme or another choice of them, or the forward's answers: in another loop a function may
    round otherwise, and no element would be the extreme."""
    found: set[Node] = set()
    for node in joint.graph.nodes:
        if node.target not in COMPARISONS and (node.target not in WITH_NUMBERS or _is_backward(node)):
            continue
        given = needed([node], stop=reads) & reads if _is_backward(node) else node.all_input_nodes
        sides = {alias_source(n) for n in given}
        direct = node.target in COMPARISONS and any(n.op == "call_function" and not is_cheap(_operator_of(n)) for n in sides)
        if direct or _meets_choice(sides):
            found |= {n for n in (sides if _is_backward(node) else {node}) if "region" not in n.meta}
    return found


def _meets_choice(sides: set[Node]) -> bool:
    """Whether cheap operators lead to the sides from a value and from a choice or a sum of what is computed from it."""
    cheap: set[Node] = set()
    costly: set[Node] = set()
    todo = list(sides)
    while todo:
        node = todo.pop()
        if node.op != "call_function" or node in cheap or node in costly:
            continue
        (cheap if is_cheap(node) else costly).add(node)
        todo += node.all_input_nodes if node in cheap else ()
    return any(not is_view(n) and n.all_input_nodes for n in needed(costly) & cheap)


def _operator_of(node: Node) -> Node:
    return node.all_input_nodes[0] if node.target is getitem else node


def _cost_of_keeping(node: Node, reads: set[Node]) -> int:
    """Of values that are alive anyway. Eager keeps what its formulas read: what else is kept can be written to before the backward."""
    return 0 if node in reads else 1


def _saving_cost(node: Node) -> int:
    size = size_of(node)
    if size >= INFINITE or _inside_region(node):
        return INFINITE
    # a saved view is copied, so that nobody else can write to it
    return 4 * size + 2 if is_view(node) else 2 * size + 1


def _is_made_again(joint: Joint, node: Node) -> bool:
    """A result of a checkpointed region that eager doesn't keep: the caller may write to it, and the pass runs the region again."""
    return "region" in node.meta and node not in joint.saved and not _is_drawn(node)


def _is_drawn(node: Node) -> bool:
    return draws(node) or (node.target is getitem and draws(node.args[0]))  # type: ignore[arg-type]  # an item of what a node returns


def _inside_region(node: Node) -> bool:
    region = node.meta.get("region")
    if region is None or _is_drawn(node):
        return False
    return all(u.meta.get("region") == region or _is_backward(u) for u in node.users)


def _may_recompute(node: Node) -> bool:
    if node.op == "placeholder" or draws(node):
        return False
    if "region" in node.meta:
        return True
    if not is_cheap(node):
        return False
    if is_view(node) or node.op == "get_attr" or node.target is getitem:
        return True
    return decide("partition", f"recompute {node.name}", "cheaper to compute again than to keep, if the cut falls before it")


CUTS = {"min_cut": min_cut, "save_all": save_all}


def _forward(joint: Joint, saved: list[Node], witnesses: AbstractSet[Node] = frozenset()) -> GraphModule:
    """What is `saved` is nobody else's to write to, but for the `witnesses`, which are kept to see whether they are written to."""
    writes = [n for n in joint.graph.nodes if n.meta.get("phase") == "write"]
    keep = needed([*joint.results, *saved, *writes, *acting(joint.graph, "forward")])
    placeholders = {p.node for p in joint.primals}
    graph = Graph()
    env: dict[Node, Node] = {}
    kept_values: dict[Node, Node] = {}

    def save() -> None:
        for node in saved:
            if node not in kept_values:
                is_copied = node in placeholders or (is_view(node) and node not in witnesses)
                kept_values[node] = _copied(graph, env[node]) if is_copied else env[node]

    for node in joint.graph.nodes:
        if node in placeholders:
            env[node] = graph.node_copy(node)
    for node in joint.graph.nodes:
        if node not in keep or node in placeholders:
            continue
        if node.meta.get("phase") == "write":
            save()
        env[node] = graph.node_copy(node, lambda n: env[n])
    save()
    graph.output((*(env[n] for n in joint.results), *(kept_values[n] for n in saved)))
    gm = _LazyGraphModule(joint.root, graph)
    gm.meta["static_inputs"] = [i for i, p in enumerate(joint.primals) if p.is_held]
    return gm


def _copied(graph: Graph, node: Node) -> Node:
    copy = graph.call_function(aten.clone.default, (node,))
    copy.meta = dict(node.meta)
    val = node.meta["val"]
    copy.meta["val"] = FakeTensor(val.meta.clone(), val.fake_device)
    return copy


def _backward(joint: Joint, ends: list[Node], saved: list[Node], again: set[Node], unread: AbstractSet[Node]) -> GraphModule:
    graph = Graph()
    env: dict[Node, Node] = {}
    for node in saved:
        given = graph.placeholder(f"saved_{node.name}")
        given.meta = dict(node.meta)
        if is_view(node):
            val = node.meta["val"]
            given.meta["val"] = FakeTensor(val.meta.clone(), val.fake_device)
        if node not in unread:
            env[node] = given
    for node in joint.tangents:
        env[node] = graph.node_copy(node)
    for node in joint.graph.nodes:
        if node in again and node not in env:
            env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output(tuple(env[g] if g is not None else None for g in joint.grads))
    held = {p.node for p in joint.primals if p.is_held}
    gm = _LazyGraphModule(joint.root, graph)
    gm.meta["static_inputs"] = [i for i, n in enumerate(saved) if n in held]
    return gm
