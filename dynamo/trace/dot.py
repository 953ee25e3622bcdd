"""Captured graphs as DOT, through the `graphviz` package. The `dot` program is needed only to draw them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from types import ModuleType

from dynamo.trace.events import GraphCaptured, GraphNode, StepScheduled
from dynamo.trace.model import short

_SHAPES = {"placeholder": "invhouse", "get_attr": "cylinder", "output": "house"}
_NAME = re.compile(r"%?([A-Za-z_]\w*)")


@functools.cache
def _graphviz() -> ModuleType:
    import graphviz  # noqa: PLC0415  # needed only by who draws

    return graphviz


def to_dot(graph: GraphCaptured) -> str:
    """DOT text of one graph: a box per node with its user line, an edge per use."""
    graphviz = _graphviz()
    dot = graphviz.Digraph(name=graph.graph_id, node_attr={"fontname": "monospace", "shape": "box"})
    names = {n.name for n in graph.nodes}
    for node in graph.nodes:
        label = "\n".join(part for part in (f"{node.name} = {node.target}", node.shape, _where(node)) if part)
        dot.node(node.name, graphviz.escape(label).replace("\n", "\\n"), shape=_SHAPES.get(node.op, "box"))
        for used in node.inputs or _names_in(node, names):
            dot.edge(used, node.name)
    return str(dot.source)


def steps_to_dot(name: str, steps: Sequence[StepScheduled]) -> str:
    """DOT text of a scheduled graph: a box per kernel, an ellipse per operator call, an edge per buffer that goes from one to another."""
    graphviz = _graphviz()
    dot = graphviz.Digraph(name=name, node_attr={"fontname": "monospace", "shape": "box"})
    writers: dict[str, str] = {}
    for step in steps:
        lines = ", ".join(f"{short(line)}" for line in step.lines)
        label = "\n".join(part for part in (f"{step.what} {step.name}", ", ".join(step.ops), lines) if part)
        dot.node(step.name, graphviz.escape(label).replace("\n", "\\n"), shape="box" if step.what == "kernel" else "ellipse")
        for buffer in step.reads:
            if buffer not in writers:
                writers[buffer] = buffer
                dot.node(buffer, buffer, shape="invhouse")
            dot.edge(writers[buffer], step.name, label=buffer)
        writers.update(dict.fromkeys(step.writes, step.name))
    return str(dot.source)


def to_svg(dot: str) -> str | None:
    """The picture, or None where the program `dot` is missing or fails."""
    graphviz = _graphviz()
    try:
        return str(graphviz.Source(dot).pipe(format="svg", encoding="utf-8", quiet=True))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return None


def _where(node: GraphNode) -> str:
    return f"{short(node.file)}:{node.line}" if node.file else ""


def _names_in(node: GraphNode, names: set[str]) -> list[str]:
    """Records without `inputs`: the node names its text mentions after its own."""
    _, _, uses = node.text.partition("(" if "(" in node.text else "=")
    return [n for n in dict.fromkeys(_NAME.findall(uses)) if n in names and n != node.name]
