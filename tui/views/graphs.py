"""Graphs with their nodes: what each computes, of which type and shape, for which line. Layers that are alike appear once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dynamo.trace import events as ev
from dynamo.trace.artefacts import belongs
from dynamo.trace.model import CAPTURE, Compile, Run, plural, short
from dynamo.trace.readable import SHORT
from tui.views import names
from tui.views.page import Page, columns
from tui.views.repeats import repeated

_FX_NODE = re.compile(
    r"%(?P<name>\w+) : .*?\[num_users=\d+\] = (?P<op>\w+)\[target=(?P<target>.+?)\]"
    r"(?:\(args = \((?P<args>.*)\), kwargs = \{(?P<kwargs>.*)\}\))?$"
)
_NODE_FORMS = {"placeholder": "input {target}", "get_attr": "self.{target}"}
_WORD = re.compile(r"[A-Za-z_]\w*")
_SHAPE = re.compile(r"^(?P<dtype>[a-z]+\d*)\[")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|_\d+$")
_ROOM = 24  # characters of a line that its statement always gets


@dataclass(frozen=True)
class Node:
    """One node. `text` is its statement in the program's names, `shape` reads `f32[4, 8]`; `file` and `line` are the user's."""

    name: str
    op: str
    target: str
    text: str
    shape: str
    file: str
    line: int


Key = tuple[str, str, str, str, str, int]


@dataclass(frozen=True)
class Graph:
    """One graph. stage: capture for what was captured, later stages by name. `code` is its text as recorded."""

    id: str
    compile_id: str
    stage: str
    function: str
    file: str
    line: int
    ops: int
    nodes: tuple[Node, ...]
    code: str


@dataclass(frozen=True)
class Graphs:
    """All graphs of a run, or those that were asked for."""

    graphs: tuple[Graph, ...]


def view(run: Run, graph: str = "", later: bool = True) -> Graphs:
    """`graph`: the id of a compile or a graph. `later`: also what stages after capture made of them."""
    found: list[Graph] = []
    written: dict[object, dict[Key, Node]] = {}
    for item in run.compiles.values():
        chosen = [g for g in item.graphs if belongs(item.id, g.graph_id, graph) and (later or g.stage == CAPTURE)]
        if chosen:
            inputs = names.inputs_of(item)
            known = written.setdefault(tuple(inputs.items()), {})
            found += [_graph(run, item, g, inputs, known) for g in chosen]
    return Graphs(tuple(found))


def _graph(run: Run, item: Compile, g: ev.GraphCaptured, inputs: Mapping[str, str], known: dict[Key, Node]) -> Graph:
    """`known` are the nodes that were written before: graphs of recompiles are much alike."""
    function = names.function_of(run, item)
    nodes = []
    for n in g.nodes:
        key = (n.name, n.op, n.text, n.shape, n.file, n.line)
        if key not in known:
            known[key] = _node(n, inputs)
        nodes.append(known[key])
    return Graph(g.graph_id, item.id, g.stage, function.title, function.file, function.line, g.ops, tuple(nodes), g.code)


def _node(n: ev.GraphNode, inputs: Mapping[str, str]) -> Node:
    text = _WORD.sub(lambda m: names.node(m[0], inputs), node_line(n)) if n.op not in ("placeholder", "get_attr") else _input(n, inputs)
    return Node(names.node(n.name, inputs), n.op, names.node(n.target, inputs), text, shape_of(n), n.file, n.line)


def _input(n: ev.GraphNode, inputs: Mapping[str, str]) -> str:
    kind = "input" if n.op == "placeholder" and not names.is_parameter(n.name) else "parameter"
    return f"{kind} {names.node(n.name, inputs)}"


def shape_of(n: ev.GraphNode) -> str:
    """`f32[4, 8]`, or '' for what is no tensor."""
    found = _SHAPE.match(n.shape)
    return SHORT.get(found["dtype"], found["dtype"]) + n.shape[found.end("dtype") :] if found else n.shape


def node_line(node: ev.GraphNode) -> str:
    """A node as a line of Python. Other texts than FX's own form are shown as they are."""
    found = _FX_NODE.match(node.text)
    if found is None:
        return node.text or f"{node.name} = {node.target}"
    args = [re.sub(r"%(?=\w)", "", part) for part in (found["args"] or "").rstrip(",").split(", ") if part]
    target, inside = found["target"], args
    if found["op"] == "call_method" and args:
        target, inside = f"{args[0]}.{target}", args[1:]
    if found["kwargs"]:
        inside = [*inside, re.sub(r"(\w+): ", r"\1=", re.sub(r"%(?=\w)", "", found["kwargs"]))]
    return f"{found['name']} = " + _NODE_FORMS.get(found["op"], "{target}({inside})").format(target=target, inside=", ".join(inside))


def lines(found: Graphs, page: Page) -> list[str]:
    """Captured graphs node by node; what later stages made of them as one line each, unless only those were asked for."""
    captured = [g for g in found.graphs if g.stage == CAPTURE]
    head = f"{plural(len(captured), 'graph')} captured, {plural(sum(g.ops for g in captured), 'op')}"
    out = [page.paint(head, "bold")] if captured else []
    alike: dict[tuple[tuple[str, str], ...], list[Graph]] = {}
    for g in captured or found.graphs:
        alike.setdefault((("", g.function), *((_key(n), n.shape) for n in g.nodes)), []).append(g)
    later: dict[str, list[Graph]] = {}
    for g in found.graphs:
        if captured and g.stage != CAPTURE:
            later.setdefault(g.compile_id, []).append(g)
    for graphs in alike.values():
        out += ["", *_one(graphs, page)]
        out += [page.clip(f"  then {g.id} ({g.stage}): {plural(g.ops, 'op')}") for g in later.get(graphs[0].compile_id, ())]
    return out or ["no graphs"]


def _one(graphs: list[Graph], page: Page) -> list[str]:
    g = graphs[0]
    times = f" x {len(graphs)}  ({' '.join(x.id for x in graphs)})" if len(graphs) > 1 else ""
    head = page.clip(f"graph {g.id}  {g.function}  {short(g.file)}:{g.line}  {plural(g.ops, 'op')}{times}")
    nodes = [n for n in g.nodes if n.op != "output"]
    tails = columns([(n.shape, f"{short(n.file)}:{n.line}" if n.file else "") for n in nodes])
    width = max(_ROOM, page.width - 4 - max((len(t) for t in tails), default=0))
    texts = [n.text if len(n.text) <= width or page.full else n.text[: width - 1] + "…" for n in nodes]
    rows = [f"  {text:<{width}}  {tail}".rstrip() for text, tail in zip(texts, tails, strict=True)]
    body = rows if page.full else repeated(rows, [f"{_key(n)} {n.shape}" for n in nodes])
    return [page.paint(head, "bold"), *(page.clip(row) for row in body)]


def _key(n: Node) -> str:
    """What nodes of equal layers have in common."""
    return f"{n.op} {_NUMBER.sub('#', n.target)} {n.file}:{n.line}"
