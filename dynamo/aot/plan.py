"""Which results of a graph are computed from other results of it, and so need a node of autograd of their own."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from dynamo.aot.facts import Facts


class Plan:
    """Which results need a node of their own, in the order they are made, and which outputs each one is computed from.

    `levels` holds per node (results, outputs). Arguments that the graph gives a new history count as outputs too, behind the others.
    """

    def __init__(self, gm: GraphModule, facts: Facts) -> None:
        self.levels: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self.linked: frozenset[int] = frozenset()
        self.first = facts.differentiable.index(True) if any(facts.differentiable) else 0
        output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
        self.nodes: list[Node | Any] = list(tree_leaves(output.args[0]))
        self.count = len(self.nodes)  # of outputs; written arguments come behind them
        alone = sum(facts.differentiable) < 2 and not any(o.kind == "input" and o.steps for o in facts.outputs)
        if alone or self.count != len(facts.outputs):  # one node may stand for several outputs
            return
        arguments = [n for n in gm.graph.nodes if n.op == "placeholder"]
        places = [facts.primals[i] for i in facts.returned]
        self.nodes += [arguments[index] if kind == "argument" else None for kind, index in places]
        needed = self._needed(facts)
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
    def cuts(self) -> dict[int, Node]:
        """The outputs that others are computed from, each with the node of the captured graph whose value it is."""
        return {p: self.nodes[p] for _, outputs in self.levels for p in outputs}

    def _needed(self, facts: Facts) -> dict[int, set[int]]:
        """Per result with a gradient, the nearest outputs it was computed from."""
        own = {p: o.index for p, o in enumerate(facts.outputs) if o.kind == "graph"}
        masks = {o.index: facts.nearest[o.index] for o in facts.outputs if o.kind == "graph" and facts.differentiable[o.index]}
        return {r: {p for p in range(mask.bit_length()) if mask >> p & 1 and own.get(p) != r} for r, mask in masks.items()}


def _primals_behind(facts: Facts, result: int) -> tuple[int, ...]:
    bit = sum(facts.differentiable[:result])
    return tuple(p for p, mask in zip(facts.wanted, facts.met, strict=True) if mask >> bit & 1)


def _is_input(facts: Facts, position: int) -> bool:
    return position >= len(facts.outputs) or facts.outputs[position].kind == "input"


def _of(facts: Facts, position: int) -> int:
    return facts.outputs[position].index
