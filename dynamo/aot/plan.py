"""Which results of a graph are computed from other results of it, and so need a node of autograd of their own."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from dynamo.aot.facts import Facts

# Calls behind which no gradient flows.
_CONSTANT = ("detach", "detach_", "size", "stride")


class Plan:
    """Which results need a node of their own, in the order they are made, and which outputs each one is computed from.

    `levels` holds per node (results, outputs); `cuts` are the nodes of the captured graph whose values those outputs are. Arguments that
    the graph gives a new history count as outputs too, behind the others.
    """

    def __init__(self, gm: GraphModule, facts: Facts) -> None:
        self.levels: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.linked: frozenset[int] = frozenset()
        self.first = facts.differentiable.index(True) if any(facts.differentiable) else 0
        output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
        self.nodes: list[Node | Any] = list(tree_leaves(output.args[0]))
        self.returned = facts.returned
        alone = sum(facts.differentiable) < 2 and not any(o.kind == "input" and o.steps for o in facts.outputs)
        if alone or len(self.nodes) != len(facts.outputs):  # one node may stand for several outputs
            return
        needed = self._needed(gm, facts)
        depth: dict[int, int] = {}
        while len(depth) < len(needed):
            ready = [r for r in needed if r not in depth and all(_is_input(facts, p) or _of(facts, p) in depth for p in needed[r])]
            if not ready:  # memory that results share was written from results: no order of nodes says that
                return
            for r in ready:
                below = [depth[_of(facts, p)] for p in needed[r] if not _is_input(facts, p)]
                depth[r] = 1 + max(below, default=0) if needed[r] else 0
        for level in range(1, max(depth.values(), default=0) + 1):
            together: dict[Any, list[int]] = {}  # what has the same behind it
            for r in (r for r in needed if depth[r] == level):
                together.setdefault((frozenset(needed[r]), _primals_behind(facts, r)), []).append(r)
            self.levels += [(tuple(results), tuple(sorted(outputs))) for (outputs, _), results in together.items()]
        self.linked = frozenset(r for r in needed if depth[r])

    @property
    def cuts(self) -> frozenset[Node]:
        return frozenset(self.nodes[p] for _, outputs in self.levels for p in outputs if p < len(self.nodes))

    @property
    def written(self) -> dict[int, int]:
        """Per such output, the primal that it is."""
        outputs = {p for _, outputs in self.levels for p in outputs if p >= len(self.nodes)}
        return {p: self.returned[p - len(self.nodes)] for p in outputs}

    def _needed(self, gm: GraphModule, facts: Facts) -> dict[int, set[int]]:
        """Per result with a gradient, the nearest outputs it was computed from. A bit of a mask is an output."""
        bits: dict[Node, int] = {}
        for p, (node, o) in enumerate(zip(self.nodes, facts.outputs, strict=True)):
            differentiable = o.tracked and (facts.differentiable[o.index] if o.kind == "graph" else o.kind == "input" and o.steps)
            if differentiable and isinstance(node, Node):
                bits.setdefault(node, 1 << p)
        arguments = [n for n in gm.graph.nodes if n.op == "placeholder"]
        for k, (kind, index) in enumerate(facts.primals[i] for i in facts.returned):
            if kind == "argument":
                bits.setdefault(arguments[index], 1 << len(self.nodes) + k)
        missing = {r: sum(1 << p for p, results in facts.unmet if results >> r & 1) for r in range(facts.results)}
        nearest = {unmet: _nearest(gm, {n: bit for n, bit in bits.items() if not bit & unmet}) for unmet in {*missing.values()}}
        masks: dict[int, int] = {}
        for node, o in zip(self.nodes, facts.outputs, strict=True):
            if o.kind == "graph" and facts.differentiable[o.index] and isinstance(node, Node):
                masks[o.index] = masks.get(o.index, 0) | nearest[missing[o.index]][node]
        own = {p: _of(facts, p) for p, o in enumerate(facts.outputs) if o.kind == "graph"}
        return {r: {p for p in range(mask.bit_length()) if mask >> p & 1 and own.get(p) != r} for r, mask in masks.items()}


def _nearest(gm: GraphModule, bits: dict[Node, int]) -> dict[Node, int]:
    """Per node of the graph, those of the nodes with bits that it was computed from with none of them between."""
    inside: dict[Node, int] = {}
    for node in gm.graph.nodes:
        mask = 0
        if getattr(node.target, "__name__", node.target) not in _CONSTANT:
            for argument in node.all_input_nodes:
                mask |= bits.get(argument) or inside[argument]
        inside[node] = mask
    return inside


def _primals_behind(facts: Facts, result: int) -> tuple[int, ...]:
    bit = sum(facts.differentiable[:result])
    return tuple(p for p, mask in zip(facts.wanted, facts.met, strict=True) if mask >> bit & 1)


def _is_input(facts: Facts, position: int) -> bool:
    return position >= len(facts.outputs) or facts.outputs[position].kind == "input"


def _of(facts: Facts, position: int) -> int:
    return facts.outputs[position].index
