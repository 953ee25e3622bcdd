"""Events as log lines: what `debug.log` and `DYNAMO_LOGS` print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.trace import events as ev
from dynamo.trace.events import Event


def lines_of(event: Event) -> list[str]:
    """One event as lines; the first says what happened, texts follow it."""
    write = _WRITERS.get(type(event))
    return write(event) if write is not None else []


def id_of(event: Event) -> str:
    """The compile or graph an event belongs to, or ''."""
    return getattr(event, "graph_id", "") or getattr(event, "compile_id", "")


def _graph(e: ev.GraphCaptured) -> list[str]:
    return [f"{e.stage}: graph {e.graph_id} with {e.ops} ops", *e.code.rstrip().splitlines()]


def _code(e: ev.CodeGenerated) -> list[str]:
    return [f"{e.stage}: {e.name} ({e.language})", *e.code.rstrip().splitlines()]


def _broke(e: ev.GraphBroke) -> list[str]:
    return [f"graph break {e.id} at {e.file}:{e.line}: {e.reason}", *(f"  {place}" for place in e.stack)]


def _decided(e: ev.Decided) -> list[str]:
    number = f" #{e.number}" if e.number else ""
    return [f"{e.stage}{number} {'taken' if e.taken else 'refused'}: {e.what}" + (f": {e.reason}" if e.reason else "")]


def _scheduled(e: ev.StepScheduled) -> list[str]:
    where = f" ({', '.join(e.lines)})" if e.lines else ""
    return [f"schedule: {e.what} {e.name} of {', '.join(e.ops)} reads {' '.join(e.reads)} writes {' '.join(e.writes)}{where}"]


_WRITERS: dict[type[Event], Callable[[Any], list[str]]] = {
    ev.RunStarted: lambda e: [f"run of {' '.join(e.argv)}"],
    ev.RunEnded: lambda e: [f"run ended with {e.exit}" + (f": {e.error}" if e.error else "")],
    ev.CompileStarted: lambda e: [f"compile {e.compile_id} of {e.name} ({e.file}:{e.line})"],
    ev.CompileEnded: lambda e: [f"compile {e.compile_id} ended: {e.outcome}" + (f": {e.detail}" if e.detail else "")],
    ev.StageTimed: lambda e: [f"stage {e.stage} took {e.seconds:.4f} s"],
    ev.GraphCaptured: _graph,
    ev.CodeGenerated: _code,
    ev.GraphLowered: lambda e: [f"lower: {op} {how}" for op, how in e.how.items()],
    ev.GuardInstalled: lambda e: [f"guard {e.guard_id}: {e.source} {e.check}" + (f" ({e.file}:{e.line})" if e.file else "")],
    ev.GraphBroke: _broke,
    ev.Recompiled: lambda e: [f"recompile of {e.frame}: {e.reason}", *(f"  {line}" for line in e.failures)],
    ev.LimitHit: lambda e: [f"recompile limit {e.limit} reached by {e.frame}: {e.reason}"],
    ev.FrameSkipped: lambda e: [f"frame {e.name} ({e.file}:{e.line}) is not captured: {e.id} {e.reason}"],
    ev.InternalError: lambda e: [f"internal error [{e.id}] in {e.where}: {e.error}: {e.message} (raised at {e.raised_at})"],
    ev.FrozenMiss: lambda e: [f"frozen, ran without a compile: {e.frame}: {e.reason}"],
    ev.Decided: _decided,
    ev.StepScheduled: _scheduled,
    ev.Note: lambda e: [f"{e.level} {e.id}: {e.message}"],
}
