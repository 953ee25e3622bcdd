"""Chrome trace of a run, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

from typing import Any

from dynamo.trace.model import Run

MICROSECONDS = 1e6
_PID = 1


def to_chrome(run: Run) -> dict[str, Any]:
    """Compiles and their stages as spans, breaks and recompiles as instants. One track per frame."""
    out: list[dict[str, Any]] = [_meta("process_name", 0, run.script or "run")]
    for track, frame in enumerate(run.frames, 1):
        out.append(_meta("thread_name", track, f"frame {frame.id} {frame.name}"))
        for item in frame.compiles:
            facts = {"outcome": item.outcome, "graphs": len(item.graphs), "guards": len(item.guards)}
            out.append(_span(f"compile {item.id}", track, item.started, item.seconds, facts))
            out += [_span(s.stage, track, s.start, s.seconds, {"compile_id": s.compile_id}) for s in item.stages]
            out += [_instant(f"break {b.id}", track, b.t, {"reason": b.reason, "at": f"{b.file}:{b.line}"}) for b in item.breaks]
            if item.recompile is not None:
                out.append(_instant("recompile", track, item.recompile.t, {"reason": item.recompile.reason}))
    return {"traceEvents": out, "displayTimeUnit": "ms"}


def _meta(name: str, track: int, value: str) -> dict[str, Any]:
    return {"ph": "M", "name": name, "pid": _PID, "tid": track, "args": {"name": value}}


def _span(name: str, track: int, start: float, seconds: float, facts: dict[str, Any]) -> dict[str, Any]:
    begin, duration = start * MICROSECONDS, seconds * MICROSECONDS
    return {"ph": "X", "name": name, "cat": "compile", "pid": _PID, "tid": track, "ts": begin, "dur": duration, "args": facts}


def _instant(name: str, track: int, at: float, facts: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "i", "s": "t", "name": name, "cat": "compile", "pid": _PID, "tid": track, "ts": at * MICROSECONDS, "args": facts}
