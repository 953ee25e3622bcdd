"""The explain report: the model of a run as text and as JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dynamo.trace import events as ev
from dynamo.trace.model import CAPTURE, Compile, Frame, Place, Run, items, plural, short, shown_name

CODE_LINES = 30
GUARD_LINES = 12
LINE_WIDTH = 160
# Ids that `explain --code` has a page for; torch's own begin otherwise.
OWN_IDS = "DD"


@dataclass(frozen=True)
class Detail:
    """How much of the long parts a text shows. `full` shows everything."""

    full: bool = False

    def cut(self, lines: list[str], limit: int, more: str) -> list[str]:
        if self.full:
            return lines
        shown = [line if len(line) <= LINE_WIDTH else line[: LINE_WIDTH - 1] + "…" for line in lines[:limit]]
        return shown if len(lines) <= limit else [*shown, f"... {len(lines) - limit} more lines: {more}"]


def as_json(run: Run) -> dict[str, Any]:
    """The report as JSON values; docs/cli.md names every field."""
    return {
        "script": run.script,
        "argv": list(run.argv),
        "engine": run.engine,
        "exit": run.exit,
        "error": run.error,
        "internal_errors": [_internal_json(e) for e in run.internal_errors],
        "graphs": [graph_json(g) for g in run.graphs],
        "later_graphs": [graph_json(g) for g in run.later_graphs],
        "breaks": [_break_json(b) for b in run.breaks],
        "guards": [_guard_json(g) for g in run.guards],
        "recompiles": [_recompile_json(r) for r in run.recompiles],
        "frames": [_frame_json(run, f) for f in run.frames],
        "skipped": [{"name": s.name, "file": s.file, "line": s.line, "id": s.id, "reason": s.reason} for s in run.skipped],
        "limits": [{"frame": x.frame, "limit": x.limit, "reason": x.reason} for x in run.limits],
        "frozen_misses": [{"frame": x.frame, "reason": x.reason} for x in run.frozen],
        "times": {t.stage: {"count": t.count, "seconds": t.seconds} for t in run.times()},
        "compile_seconds": run.compile_seconds(),
        "notes": [{"id": n.id, "level": n.level, "message": n.message} for n in run.notes],
        "problems": list(run.problems),
    }


def tree_json(run: Run) -> list[dict[str, Any]]:
    """The tree as the TUI shows it."""
    return [{"key": i.key, "parent": i.parent, "title": i.title, "status": i.status.word} for i in items(run)]


def graph_json(graph: ev.GraphCaptured) -> dict[str, Any]:
    nodes = [{"name": n.name, "op": n.op, "target": n.target, "shape": n.shape, "file": n.file, "line": n.line} for n in graph.nodes]
    return {
        "id": graph.graph_id,
        "compile_id": graph.compile_id,
        "stage": graph.stage,
        "ops": graph.ops,
        "code": graph.code,
        "nodes": nodes,
    }


def _internal_json(e: ev.InternalError) -> dict[str, Any]:
    return {"id": e.id, "error": e.error, "message": e.message, "raised_at": e.raised_at, "where": e.where, "compile_id": e.compile_id}


def _internal_lines(run: Run) -> list[str]:
    """Failures of the compiler's own: before everything else, since what they hit ran uncompiled."""
    counts = Counter((e.id, e.error, e.message.split("\n", 1)[0], e.where, e.raised_at) for e in run.internal_errors)
    lines = [f"internal errors  {len(run.internal_errors)}: what follows ran in eager because the compiler itself failed"] if counts else []
    for (error_id, kind, message, where, raised_at), count in counts.items():
        times = f"  (x{count})" if count > 1 else ""
        lines += [f"  [{error_id}] {where}{times}", f"      {kind}: {message}", f"      raised at {raised_at}"]
    return [*lines, ""] if lines else []


def _break_json(b: ev.GraphBroke) -> dict[str, Any]:
    return {
        "id": b.id,
        "compile_id": b.compile_id,
        "file": b.file,
        "line": b.line,
        "col": b.col,
        "end_line": b.end_line,
        "end_col": b.end_col,
        "reason": b.reason,
        "explanation": b.explanation,
        "hint": b.hint,
        "stack": list(b.stack),
    }


def _guard_json(g: ev.GuardInstalled) -> dict[str, Any]:
    return {"compile_id": g.compile_id, "source": g.source, "check": g.check, "file": g.file, "line": g.line}


def _recompile_json(r: ev.Recompiled) -> dict[str, Any]:
    return {
        "frame": r.frame,
        "compile_id": r.compile_id,
        "reason": r.reason,
        "failures": list(r.failures),
        "source": r.source,
        "file": r.file,
        "line": r.line,
    }


def _frame_json(run: Run, frame: Frame) -> dict[str, Any]:
    return {
        "id": frame.id,
        "name": frame.name,
        "file": frame.file,
        "line": frame.line,
        "status": run.status(frame).word,
        "compiles": [
            {
                "id": c.id,
                "status": run.status(c).word,
                "outcome": c.outcome,
                "detail": c.detail,
                "parent": c.parent,
                "is_resume": c.is_resume,
                "seconds": c.seconds,
                "graphs": [g.graph_id for g in c.graphs],
            }
            for c in frame.compiles
        ],
    }


def as_text(run: Run, detail: Detail | None = None) -> str:
    """The report for people: what was captured, where it broke and why, what each compile relies on, where time went."""
    detail = detail or Detail()
    lines = [*_internal_lines(run), summary(run)]
    for frame in run.frames:
        lines += _frame_lines(run, frame, detail)
    for title, section in _SECTIONS:
        body = list(section(run))
        if body:
            lines += ["", title, *(f"  {line}" if line else "" for line in body)]
    return "\n".join(lines) + "\n"


def summary(run: Run) -> str:
    """The run in one line."""
    parts = [
        *([plural(len(run.internal_errors), "internal error")] if run.internal_errors else []),
        plural(len(run.graphs), "graph"),
        plural(sum(g.ops for g in run.graphs), "op"),
        plural(len(run.breaks), "break"),
        plural(len(run.guards), "guard"),
        plural(len(run.recompiles), "recompile"),
        f"{run.compile_seconds():.3f} s compiling",
    ]
    return ", ".join(parts)


def tree_text(run: Run) -> str:
    """The tree as the TUI shows it, for terminals without one."""
    return "\n".join(f"{'  ' * i.depth}{i.status.glyph} {i.title} [{i.status.word}]" for i in items(run)) + "\n"


def _frame_lines(run: Run, frame: Frame, detail: Detail) -> Iterator[str]:
    yield ""
    yield f"frame {frame.id}  {shown_name(frame.name)}  {short(frame.file)}:{frame.line}"
    for item in frame.compiles:
        status = run.status(item)
        notes = [item.detail] if item.detail and item.outcome != "break" else []
        if item.recompile is not None:
            notes.append(f"recompiled because {item.recompile.reason}")
        if item.parent:
            notes.append(f"after the break of {item.parent}")
        note = "  " + "; ".join(notes) if notes else ""
        yield f"  compile {item.id}  {status.glyph} {status.word}  {item.seconds:.3f} s{note}"
        for graph in item.graphs:
            yield f"    graph {graph.graph_id}  {plural(graph.ops, 'op')}  ({graph.stage})"
            if graph.stage != CAPTURE and not detail.full:
                continue
            code = detail.cut(graph.code.strip("\n").split("\n"), CODE_LINES, f"--graph {graph.graph_id}")
            yield from (f"      {line}".rstrip() for line in code)
        yield from _guard_lines(run, item, detail)


def _guard_lines(run: Run, item: Compile, detail: Detail) -> Iterator[str]:
    if not item.guards:
        return
    yield f"    guards  {len(item.guards)}"
    by_place: dict[Place, list[ev.GuardInstalled]] = {}
    for guard in item.guards:
        by_place.setdefault((guard.file, guard.line), []).append(guard)
    lines = []
    for place, guards in sorted(by_place.items(), key=lambda pair: not pair[0][0]):
        lines.append(f"{_at(place)}  {run.source_line(place).strip()}".rstrip())
        counts = Counter(f"  {g.source}  {g.check}".rstrip() for g in guards)
        lines += [text if count == 1 else f"{text}  (x{count})" for text, count in counts.items()]
    yield from (f"      {line}" for line in detail.cut(lines, GUARD_LINES, "--full"))


def _at(place: Place) -> str:
    return f"{short(place[0])}:{place[1]}" if place[0] else "(no user line)"


def excerpt(run: Run, b: ev.GraphBroke) -> list[str]:
    """The user line of a break with its span marked."""
    text = run.source_line((b.file, b.line))
    if not text:
        return []
    # Columns are UTF-8 offsets, as code objects keep them; the marks go under characters.
    raw = text.encode("utf-8", "replace")
    start = len(raw[: max(b.col, 0)].decode("utf-8", "ignore"))
    start = max(start, len(text) - len(text.lstrip()))
    end = len(raw[: b.end_col].decode("utf-8", "ignore")) if b.end_line == b.line else len(text)
    number = f"{b.line:>5}"
    gap = "".join(c if c == "\t" else " " for c in text[:start])
    return [f"{number} | {text}", f"{' ' * len(number)} | {gap}{'^' * max(1, end - start)}"]


def _break_lines(run: Run) -> Iterator[str]:
    for number, b in enumerate(run.breaks, 1):
        yield f"{number}. {b.id}  {b.reason}"
        yield f"   {b.file}:{b.line}  in compile {b.compile_id}"
        yield from (f"   {line}" for line in excerpt(run, b))
        for label, text in (("why", b.explanation), ("instead", b.hint)):
            if text:
                yield f"   {label}: {text}"
        if len(b.stack) > 1:
            yield "   stack: " + " > ".join(b.stack)
        if b.id.startswith(OWN_IDS):
            yield f"   more: dynamo-debug explain --code {b.id}"


def _recompile_lines(run: Run) -> Iterator[str]:
    for r in run.recompiles:
        where = f"  ({_at((r.file, r.line))})" if r.file else ""
        yield f"{r.frame}  {r.compile_id}: {r.reason}{where}"
        yield from (f"  {line}" for line in r.failures if line != r.reason)


def _limit_lines(run: Run) -> Iterator[str]:
    for x in run.limits:
        yield f"{x.frame}: limit {x.limit} reached: {x.reason}"
    for miss in run.frozen:
        yield f"{miss.frame}: frozen, ran without a compile: {miss.reason}"


def _skip_lines(run: Run) -> Iterator[str]:
    for s in run.skipped:
        yield f"{s.name}  {short(s.file)}:{s.line}  {s.id} {s.reason}".rstrip()


def _time_lines(run: Run) -> Iterator[str]:
    width = max((len(t.stage) for t in run.times()), default=0)
    for t in run.times():
        yield f"{t.stage:<{width}} {t.count:>5}x  {t.seconds:.4f} s"


def _note_lines(run: Run) -> Iterator[str]:
    for n in run.notes:
        yield f"{n.level} {n.id}: {n.message}"
    yield from run.problems


_SECTIONS = (
    ("breaks", _break_lines),
    ("recompiles", _recompile_lines),
    ("limits", _limit_lines),
    ("frames not captured", _skip_lines),
    ("times", _time_lines),
    ("notes", _note_lines),
)
