"""The model of a run as JSON values, as a tree, and in one line."""

from __future__ import annotations

from typing import Any

from dynamo.trace import codec
from dynamo.trace import events as ev
from dynamo.trace.model import Frame, Run, items, plural, process_key


def as_json(run: Run) -> dict[str, Any]:
    """The report as JSON values; docs/cli.md names every field."""
    return {
        "script": run.script,
        "argv": list(run.argv),
        "engine": run.engine,
        "exit": run.exit,
        "error": run.error,
        "internal_errors": [codec.fields(e) for e in run.internal_errors],
        "memory_faults": [codec.fields(e) for e in run.memory_faults],
        "processes": [_process_json(run, p) for p in run.processes],
        "graphs": [graph_json(g) for g in run.graphs],
        "later_graphs": [graph_json(g) for g in run.later_graphs],
        "breaks": [codec.fields(b) for b in run.breaks],
        "guards": [codec.fields(g) for g in run.guards],
        "recompiles": [codec.fields(r) for r in run.recompiles],
        "frames": [_frame_json(run, f) for f in run.frames],
        "cache": [codec.fields(c) for item in run.compiles.values() for c in item.cache],
        "skipped": [codec.fields(s) for s in run.skipped],
        "limits": [codec.fields(x) for x in run.limits],
        "frozen_misses": [codec.fields(x) for x in run.frozen],
        "times": {t.stage: {"count": t.count, "seconds": t.seconds} for t in run.times()},
        "compile_seconds": run.compile_seconds(),
        "notes": [codec.fields(n) for n in run.notes],
        "problems": list(run.problems),
    }


def tree_json(run: Run) -> list[dict[str, Any]]:
    """The tree as the TUI shows it."""
    return [{"key": i.key, "parent": i.parent, "title": i.title, "status": i.status.word} for i in items(run)]


def graph_json(graph: ev.GraphCaptured) -> dict[str, Any]:
    return {"id": graph.graph_id, **codec.fields(graph)}


def _process_json(run: Run, process: ev.ProcessStarted) -> dict[str, Any]:
    own = [c for c in run.compiles if process_key(c.split("/")[0]) == process.key]
    return {**codec.fields(process), "compiles": len(own)}


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
