"""Graphs as a problem for the engine: their order, and the passes in the order in which they pay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import prod

from minifier.engine import Choices, Cursor, Edit, Pass, Problem, Size, Sweep
from minifier.graph import edits, inputs, simplify
from minifier.graph.inputs import dim_pass, layout_pass, number_pass, plain_pass, size_pass
from minifier.graph.ir import Graph, canonical, dump, load
from minifier.graph.simplify import argument_pass, operation_pass

LARGE = 8  # operations of a graph that halving takes several runs for
LONE = 3  # operations that are tried alone


class _Once(Choices[Graph]):
    """In the first round alone: what it leaves open the other passes settle."""

    def start(self, state: Graph, again: bool) -> Cursor | None:
        return None if again else super().start(state, again)


def lone_pass() -> Pass[Graph]:
    """One operation by itself, of the kinds that a large graph has least of: most failures are of one operation, and had it been one of
    those that everything calls, it would have been met before."""

    def options(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
        if len(graph.nodes) < LARGE:
            return []
        kinds = Counter((n.op, n.target) for n in graph.nodes)
        first = {(n.op, n.target): n for n in reversed(graph.nodes)}
        found: list[tuple[str, Graph]] = []
        for kind in sorted(first, key=lambda k: kinds[k]):
            gone = [n.id for n in graph.nodes if n is not first[kind]]
            alone = edits.bypass(graph, gone) or edits.cut(graph, gone)
            if alone is not None:
                found.append((f"{first[kind].name} alone", alone))
            if len(found) == LONE:
                break
        return found

    return _Once("one operation", lambda graph: [-1], options)


def node_pass() -> Pass[Graph]:
    """Nodes: bypassed, else cut."""
    return Sweep("nodes", lambda g: [n.id for n in g.nodes], Edit("bypass", edits.bypass), Edit("cut", edits.cut))


def output_pass() -> Pass[Graph]:
    """Results that something reads."""
    return Sweep("outputs", lambda g: [o for o in g.outputs if g.users[o]], Edit("drop result", edits.drop_outputs))


def merge_pass() -> Pass[Graph]:
    """Inputs that look the same become one."""

    def sites(graph: Graph) -> Sequence[Hashable]:
        return [i.id for i in reversed(graph.inputs)]

    def options(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
        this = next(i for i in graph.inputs if i.id == site)
        found = []
        for other in graph.inputs:
            if other.id == site:
                break
            if other.spec.fits(this.spec) and other.requires_grad == this.requires_grad:
                found.append((f"read {other.name}", edits.merge_inputs(graph, this.id, other.id)))
        return [(label, g) for label, g in found if g is not None]

    return Choices("merge inputs", sites, options)


STRUCTURE = (lone_pass, node_pass, output_pass, merge_pass)
DETAILS = (plain_pass, size_pass, dim_pass, layout_pass, operation_pass, argument_pass, number_pass)


class GraphProblem(Problem[Graph]):
    """A graph under the given passes."""

    def __init__(self, passes: Sequence[Pass[Graph]] | None = None) -> None:
        self.passes = [make() for make in STRUCTURE + DETAILS] if passes is None else passes

    def size(self, state: Graph) -> Size:
        """Nodes, inputs, results, elements, dims, what operations and inputs are like."""
        shapes = [i.spec.shape for i in state.inputs]
        operations, arguments, literals = simplify.cost(state)
        counts = (len(state.nodes), len(state.inputs), len(state.outputs))
        extents = (sum(map(prod, shapes)), sum(map(len, shapes)), sum(map(sum, shapes)))
        return (*counts, *extents, operations, arguments, *inputs.cost(state), literals)

    def serialise(self, state: Graph) -> bytes:
        return dump(state)

    def restore(self, data: bytes) -> Graph:
        return load(data)

    def remainder(self, start: Graph, end: Graph) -> Graph | None:
        """Without the nodes of the end, and those that call the same."""
        kept, called = {n.id for n in end.nodes}, {(n.op, n.target) for n in end.nodes}
        gone = [n.id for n in start.nodes if n.id in kept or (n.op, n.target) in called]
        return edits.bypass(start, gone) or edits.cut(start, gone)

    def canonical(self, state: Graph) -> bytes:
        return canonical(state)

