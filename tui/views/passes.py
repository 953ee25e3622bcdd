"""What each stage made of a graph: sizes before and after, and the rewrites that were taken or refused."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

from dynamo.trace.artefacts import belongs, step_of
from dynamo.trace.model import CAPTURE, Compile, Run, plural
from tui.views import names
from tui.views.page import Page, columns

_SHOWN = 8  # kinds of rewrites of one stage
_CONTEXT = 1


@dataclass(frozen=True)
class Rewrite:
    """Decisions of one kind in one stage. `what` is the first word of them: the name of the pass; `examples` whole ones."""

    stage: str
    what: str
    taken: int
    refused: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One graph at one stage: its nodes before and after, and whether its text changed."""

    graph_id: str
    stage: str
    before: int | None
    after: int
    diff: tuple[str, ...]


@dataclass(frozen=True)
class CompilePasses:
    """The way of the graphs of one compile through the stages."""

    compile_id: str
    function: str
    cached: bool
    changes: tuple[Change, ...]
    rewrites: tuple[Rewrite, ...]


@dataclass(frozen=True)
class Passes:
    """All compiles with graphs, or those that were asked for."""

    compiles: tuple[CompilePasses, ...]


def view(run: Run, graph: str = "") -> Passes:
    return Passes(tuple(found for c in run.compiles.values() if c.graphs and (found := _of(run, c, graph)).changes))


def _of(run: Run, item: Compile, graph: str) -> CompilePasses:
    chosen = [g for g in item.graphs if belongs(item.id, g.graph_id, graph)]
    by_id = {g.graph_id: g for g in item.graphs}
    changes = []
    for g in chosen:
        before = by_id.get(g.graph_id.rpartition(".")[0]) if g.stage != CAPTURE else None
        diff = _diff(before.code, g.code) if before is not None and g.stage == "passes" else ()
        changes.append(Change(g.graph_id, g.stage, len(before.nodes) if before is not None else None, len(g.nodes), diff))
    return CompilePasses(item.id, names.function_of(run, item).title, item.is_cached, tuple(changes), _rewrites(item, graph))


def _diff(before: str, after: str) -> tuple[str, ...]:
    found = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=_CONTEXT)
    return tuple(line for line in found if not line.startswith(("---", "+++")))


def _rewrites(item: Compile, graph: str) -> tuple[Rewrite, ...]:
    taken: Counter[tuple[str, str]] = Counter()
    refused: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], list[str]] = {}
    for d in item.decisions:
        if belongs(d.compile_id, d.graph_id, graph):
            key = (d.stage, _kind(d.what) if step_of(d.stage) != "schedule" else d.stage)
            (taken if d.taken else refused)[key] += 1
            examples.setdefault(key, []).append(d.what + (f": {d.reason}" if d.reason else ""))
    return tuple(Rewrite(*key, taken[key], refused[key], tuple(found[:3])) for key, found in examples.items())


def _kind(what: str) -> str:
    return what.rpartition(" ")[0] or what


def lines(found: Passes, page: Page) -> list[str]:
    """Sizes along the way, then the rewrites by kind, equal compiles once; the text that changed with `--full`."""
    out = [page.paint(f"graphs of {plural(len(found.compiles), 'compile')}", "bold")]
    alike: dict[tuple[str, ...], list[CompilePasses]] = {}
    for c in found.compiles:
        body = _body(c, page)
        alike.setdefault((c.function, *(line.replace(c.compile_id, "ID") for line in body)), []).append(c)
    for same in alike.values():
        c = same[0]
        cached = "  (from the cache: as the run that made the entry saw it)" if c.cached else ""
        times = f" x {len(same)}  ({' '.join(x.compile_id for x in same)})" if len(same) > 1 else ""
        out += ["", page.paint(page.clip(f"compile {c.compile_id}  {c.function}{cached}{times}"), "bold"), *_body(c, page)]
    return out


def _body(c: CompilePasses, page: Page) -> list[str]:
    rows = [(x.graph_id, x.stage, f"{x.before} -> {x.after} nodes" if x.before is not None else f"{x.after} nodes") for x in c.changes]
    out = [page.clip(f"  {row}") for row in columns(rows)]
    kinds = sorted(c.rewrites, key=lambda r: -(r.taken + r.refused))
    shown = kinds if page.full else kinds[:_SHOWN]
    table = [(r.stage, r.what, f"{r.taken} taken", f"{r.refused} refused" if r.refused else "", r.examples[0]) for r in shown]
    out += [page.clip(f"  {row}") for row in columns(table)]
    if len(kinds) > len(shown):
        out.append(f"  ... {len(kinds) - len(shown)} more kinds: --full")
    for x in c.changes if page.full else ():
        out += ["", f"  {x.graph_id}", *(f"    {line}" for line in x.diff)] if x.diff else []
    return out
