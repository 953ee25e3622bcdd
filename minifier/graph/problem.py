"""Graphs as a problem for the engine: their order, and the passes in the order in which they pay."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod

from minifier.engine import Choices, Edit, Pass, Problem, Size, Sweep
from minifier.graph import edits, inputs, simplify
from minifier.graph.inputs import dim_pass, layout_pass, number_pass, plain_pass, size_pass
from minifier.graph.ir import Graph, canonical, dump, load
from minifier.graph.simplify import argument_pass, operation_pass


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


STRUCTURE = (node_pass, output_pass, merge_pass)
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

