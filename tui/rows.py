"""What the panes show, as rows of text with the source places they belong to. Knows the model, nothing of Textual."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dynamo.trace import events as ev
from dynamo.trace.model import Compile, Item, Place, Run, items, plural, short
from dynamo.trace.rows import lines_of
from tui.highlight import Span, spans
from tui.views.graphs import node_line

_STACK_ENTRY = re.compile(r"(?P<file>.+):(?P<line>\d+) ")
_MIN_WIDTH = 20


@dataclass(frozen=True)
class Row:
    """One line of a pane. Moving onto it marks the rows of other panes that share a place. `key` finds it again after a refresh.

    `spans` are coloured parts of the text, which must then be `clean`.
    """

    text: str
    places: frozenset[Place] = frozenset()
    look: str = "plain"
    key: str = ""
    spans: tuple[Span, ...] = ()


def clean(text: str) -> str:
    """Text that a terminal shows as it is: tabs expanded, control characters made visible."""
    return "".join(c if c.isprintable() else "·" for c in text.expandtabs(4))


def tree_rows(run: Run, closed: set[str]) -> list[tuple[Item, Row]]:
    """Rows of the tree; children of `closed` keys are left out."""
    out: list[tuple[Item, Row]] = []
    hidden: set[str] = set()
    everything = items(run)
    parents = {item.parent for item in everything}
    for item in everything:
        if item.parent in hidden or item.parent in closed:
            hidden.add(item.key)
            continue
        fold = " " if item.key not in parents else "+" if item.key in closed else "-"
        text = f"{' ' * item.depth}{fold}{item.status.glyph} {item.status.word}  {item.title}"
        out.append((item, Row(text, frozenset([item.place]), item.status.word, item.key)))
    return out


def compiles_of(run: Run, item: Item) -> list[Compile]:
    """The compiles that a tree item stands for."""
    if item.key == "run":
        return list(run.compiles.values())
    if item.key.startswith("frame "):
        return list(run.frame_of(item.compile_id).compiles) if item.compile_id else []
    return [run.compiles[item.compile_id]]


def source_rows(run: Run, file: str) -> list[Row]:
    lines = run.source(file)
    if not lines:
        return [Row(f"no source text for {file or 'this item'}", look="dim")]
    width = len(str(len(lines)))
    broken = {(b.file, b.line) for b in run.breaks}
    text = "\n".join(map(clean, lines))
    out = []
    for number, (line, coloured) in enumerate(zip(text.split("\n"), spans(text, "python"), strict=True), 1):
        place = (file, number)
        look, glyph = ("break", "✗") if place in broken else ("plain", " ")
        moved = () if place in broken else tuple((start + width + 1, end + width + 1, style) for start, end, style in coloured)
        out.append(Row(f"{number:>{width}}{glyph}{line}", frozenset([place]), look, str(number), moved))
    return out


def graph_rows(run: Run, item: Item) -> list[Row]:
    out: list[Row] = []
    for compiled in compiles_of(run, item):
        for graph in compiled.graphs:
            if item.graph_id in ("", graph.graph_id):
                out += _one_graph(graph)
    return out or [Row(_no_graphs(run), look="dim")]


def _no_graphs(run: Run) -> str:
    if run.running:
        return "waiting for the first graph"
    if not run.compiles:
        return "nothing was compiled: call a function decorated with torch.compile or dynamo.compile"
    return "no graph was captured here"


def _one_graph(graph: ev.GraphCaptured) -> Iterator[Row]:
    yield Row(f"graph {graph.graph_id}  {plural(graph.ops, 'op')}  {graph.stage}", look="title", key=graph.graph_id)
    if not graph.nodes:
        yield from (Row(f"  {line}") for line in graph.code.splitlines())
    for node in graph.nodes:
        text = node_line(node)
        places = {(node.file, node.line)} if node.file else set()
        for entry in node.stack:
            if found := _STACK_ENTRY.match(entry + " "):
                places.add((found["file"], int(found["line"])))
        look = "dim" if node.op in ("placeholder", "get_attr", "output") else "plain"
        yield Row(f"  {text}  {node.shape}".rstrip(), frozenset(places), look, f"{graph.graph_id} {node.name}")


def guard_rows(run: Run, item: Item) -> list[Row]:
    out: list[Row] = []
    for compiled in compiles_of(run, item):
        if compiled.recompile is not None:
            r = compiled.recompile
            out.append(Row(f"↻ {compiled.id} recompiled: {r.reason}", _place(r.file, r.line), "recompile", f"{compiled.id} why"))
        if compiled.guards:
            out.append(Row(f"compile {compiled.id}  {plural(len(compiled.guards), 'guard')}", look="title", key=compiled.id))
        for g in compiled.guards:
            at = f"{short(g.file)}:{g.line}" if g.file else ""
            out.append(Row(f"  {g.source}  {g.check}  {at}".rstrip(), _place(g.file, g.line), key=f"{compiled.id} {g.guard_id}"))
    return out or [Row("no guards here", look="dim")]


def break_rows(run: Run, item: Item, width: int) -> list[Row]:
    out: list[Row] = []
    for compiled in compiles_of(run, item):
        for number, b in enumerate(compiled.breaks):
            places = _place(b.file, b.line)
            key = f"{compiled.id} {number}"
            out.append(Row(f"✗ {b.id} break  {b.reason}", places, "break", key))
            out.append(Row(f"  {short(b.file)}:{b.line}  {run.source_line((b.file, b.line)).strip()}", places, "plain", key + " at"))
            for label, text in (("why", b.explanation), ("instead", b.hint)):
                out += [Row(line, places, "dim") for line in _wrap(f"{label}: {text}", width) if text]
    for again in (c.recompile for c in compiles_of(run, item)):
        if again is not None:
            at, places = again.compile_id, _place(again.file, again.line)
            out.append(Row(f"↻ {at} {run.compiles[at].name} recompiled", places, "recompile", f"{at} ↻"))
            out += [Row(line, places, "dim") for line in _wrap(again.reason, width)]
    for s in run.skipped if item.key == "run" else ():
        out.append(Row(f"− {s.id} skipped  {s.name}: {s.reason}", _place(s.file, s.line), "skipped"))
    for x in run.limits if item.key == "run" else ():
        out.append(Row(f"! limit {x.limit} reached by {x.frame}: {x.reason}", look="error"))
    for miss in run.frozen if item.key == "run" else ():
        out.append(Row(f"! frozen, ran without a compile: {miss.frame}: {miss.reason}", look="error"))
    for e in run.internal_errors if item.key == "run" else ():
        out.append(Row(f"! internal error [{e.id}] in {e.where}: {e.error}: {e.message}".partition("\n")[0], look="error"))
    for fault in run.memory_faults if item.key == "run" else ():
        out.append(Row(f"! {lines_of(fault)[0]}", look="error"))
    for problem in run.problems if item.key == "run" else ():
        out.append(Row(f"? {problem}", look="missing"))
    return out or [Row("no breaks here", look="dim")]


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(_MIN_WIDTH, width - 4), initial_indent="  ", subsequent_indent="    ")


def _place(file: str, line: int) -> frozenset[Place]:
    return frozenset([(file, line)]) if file else frozenset()


def marked(rows: Iterable[Row], places: frozenset[Place]) -> list[int]:
    """Indices of the rows that share a place."""
    return [index for index, row in enumerate(rows) if row.places & places]


def matching(rows: Iterable[Row], pattern: str) -> list[int]:
    """Indices of the rows in which `pattern` occurs: a regular expression, or plain text if it is none. Case does not matter."""
    try:
        finder = re.compile(pattern, re.IGNORECASE)
    except re.error:
        finder = re.compile(re.escape(pattern), re.IGNORECASE)
    return [index for index, row in enumerate(rows) if finder.search(row.text)]
