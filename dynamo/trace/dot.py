"""Captured graphs as DOT. The package `graphviz` and the program `dot` are needed only to draw them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dynamo.trace.events import GraphCaptured, GraphNode, StepScheduled
from dynamo.trace.model import short

_SHAPES = {"placeholder": "invhouse", "get_attr": "cylinder", "output": "house"}
_NAME = re.compile(r"%?([A-Za-z_]\w*)")


def to_dot(graph: GraphCaptured) -> str:
    """DOT text of one graph: a box per node with its user line, an edge per use."""
    lines = []
    names = {n.name for n in graph.nodes}
    for node in graph.nodes:
        label = "\n".join(part for part in (f"{node.name} = {node.target}", node.shape, _where(node)) if part)
        lines.append(_node(node.name, label, _SHAPES.get(node.op, "box")))
        lines += [_edge(used, node.name) for used in node.inputs or _names_in(node, names)]
    return _digraph(graph.graph_id, lines)


def steps_to_dot(name: str, steps: Sequence[StepScheduled]) -> str:
    """DOT text of a scheduled graph: a box per kernel, an ellipse per operator call, an edge per buffer that goes from one to another."""
    lines = []
    writers: dict[str, str] = {}
    for step in steps:
        at = ", ".join(f"{short(line)}" for line in step.lines)
        label = "\n".join(part for part in (f"{step.what} {step.name}", ", ".join(step.ops), at) if part)
        lines.append(_node(step.name, label, "box" if step.what == "kernel" else "ellipse"))
        for buffer in step.reads:
            if buffer not in writers:
                writers[buffer] = buffer
                lines.append(_node(buffer, buffer, "invhouse"))
            lines.append(_edge(writers[buffer], step.name, buffer))
        writers.update(dict.fromkeys(step.writes, step.name))
    return _digraph(name, lines)


def to_svg(dot: str) -> str | None:
    """The picture, or None where the program `dot` is missing or fails."""
    import graphviz  # noqa: PLC0415  # needed only by who draws

    try:
        return str(graphviz.Source(dot).pipe(format="svg", encoding="utf-8", quiet=True))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError):
        return None


def _digraph(name: str, lines: Iterable[str]) -> str:
    return "\n".join((f"digraph {_quoted(name)} {{", "\tnode [fontname=monospace shape=box]", *lines, "}\n"))


def _node(name: str, label: str, shape: str) -> str:
    return f"\t{_quoted(name)} [label={_quoted(label)} shape={shape}]"


def _edge(source: str, target: str, label: str = "") -> str:
    return f"\t{_quoted(source)} -> {_quoted(target)}" + (f" [label={_quoted(label)}]" if label else "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _where(node: GraphNode) -> str:
    return f"{short(node.file)}:{node.line}" if node.file else ""


def _names_in(node: GraphNode, names: set[str]) -> list[str]:
    """Records without `inputs`: the node names its text mentions after its own."""
    _, _, uses = node.text.partition("(" if "(" in node.text else "=")
    return [n for n in dict.fromkeys(_NAME.findall(uses)) if n in names and n != node.name]
