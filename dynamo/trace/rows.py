"""One row per event type: what takes it into the model, its lines in logs, and the views in which people meet it.

Its JSON needs no row: `codec` makes it of the fields. A test feeds every type through every table; what a type is left out of says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dynamo.trace import events as ev
from dynamo.trace.events import Event

# Where people meet events; tests/trace/test_rows.py draws each.
VIEWS = {
    "report": "the text of `explain`",
    "tree": "run, frames, compiles and graphs, in the TUI and in its plain form",
    "graph": "the graphs of the chosen item in the TUI",
    "guards": "its guards",
    "breaks": "its breaks, and what ran uncompiled",
    "source": "the user's lines",
    "stages": "what each stage made: `explain --stage`, `explain --decisions` and the stages screen",
    "status": "the last line of the TUI",
}
LINES, LOGS, JSON = "lines", "logs", "json"

Take = Callable[[Any, Any], None]


@dataclass(frozen=True)
class Row:
    """take: puts an event into a `Run`. lines: its text; the first line says what happened. views: rows of `VIEWS`, the first one is
    where to look. unseen: the other tables (LINES, LOGS, JSON) that leave it out, and why.
    """

    take: Take
    lines: Callable[[Any], list[str]]
    views: tuple[str, ...]
    unseen: dict[str, str] = field(default_factory=dict)


def lines_of(event: Event) -> list[str]:
    """One event as lines; the first says what happened, texts follow it."""
    return ROWS[type(event)].lines(event)


def id_of(event: Event) -> str:
    """The compile or graph an event belongs to, or ''."""
    return getattr(event, "graph_id", "") or getattr(event, "compile_id", "")


def _to_compile(name: str) -> Take:
    return lambda run, e: getattr(run.compile_of(e.compile_id), name).append(e)


def _to_run(name: str) -> Take:
    return lambda run, e: getattr(run, name).append(e)


def _graph(e: ev.GraphCaptured) -> list[str]:
    return [f"{e.stage}: graph {e.graph_id} with {e.ops} ops", *e.code.rstrip().splitlines()]


def _code(e: ev.CodeGenerated) -> list[str]:
    return [f"{e.stage}: {e.name} ({e.language})", *e.code.rstrip().splitlines()]


def _looked(e: ev.CacheLooked) -> list[str]:
    return [f"cache: {e.outcome}" + (f" of {e.key[:12]}" if e.key else "") + (f": {e.reason}" if e.reason else "")]


def _broke(e: ev.GraphBroke) -> list[str]:
    return [f"graph break {e.id} at {e.file}:{e.line}: {e.reason}", *(f"  {place}" for place in e.stack)]


def _decided(e: ev.Decided) -> list[str]:
    number = f" #{e.number}" if e.number else ""
    return [f"{e.stage}{number} {'taken' if e.taken else 'refused'}: {e.what}" + (f": {e.reason}" if e.reason else "")]


def _scheduled(e: ev.StepScheduled) -> list[str]:
    where = f" ({', '.join(e.lines)})" if e.lines else ""
    return [f"schedule: {e.what} {e.name} of {', '.join(e.ops)} reads {' '.join(e.reads)} writes {' '.join(e.writes)}{where}"]


def _loaded(e: ev.KernelLoaded) -> list[str]:
    needs = f"{e.registers} registers, {e.spills} bytes of spills, {e.shared} of shared memory, {e.occupancy:.0%} occupied"
    took = f", {e.microseconds:.1f} us" if e.microseconds else ""
    return [f"kernels: {e.name} ({e.function}) on {e.device}: {e.programs} x {e.threads} threads, {needs}{took}"]


def _faulted(e: ev.MemoryFault) -> list[str]:
    what = f"element {e.index} of {e.buffer}, which has {e.size}" if e.buffer else f"index {e.index} of {e.size}"
    where = f" ({', '.join(e.lines)})" if e.lines else ""
    return [f"{e.found} in {e.graph_id}, kernel {e.kernel}: {what}, at {e.place}: {e.access}{where}"]


_ON_STDERR = {LOGS: "is printed on stderr as it happens"}
_COMPILE = {LOGS: "every line of a log names its compile"}

ROWS: dict[type[Event], Row] = {
    ev.RunStarted: Row(
        lambda run, e: run.begin(e), lambda e: [f"run of {' '.join(e.argv)}"], ("tree",), {LOGS: "says nothing about what was compiled"}
    ),
    ev.RunEnded: Row(
        lambda run, e: run.end(e),
        lambda e: [f"run ended with {e.exit}" + (f": {e.error}" if e.error else "")],
        ("status", "tree"),
        {LOGS: "says nothing about what was compiled"},
    ),
    ev.ProcessStarted: Row(
        _to_run("processes"),
        lambda e: [f"process {e.pid}" + (f", rank {e.rank}" if e.rank >= 0 else "") + f": {' '.join(e.argv)}"],
        ("tree",),
        {LOGS: "says nothing about what was compiled"},
    ),
    ev.CompileStarted: Row(
        lambda run, e: run.begin_compile(e),
        lambda e: [f"compile {e.compile_id} of {e.name} ({e.file}:{e.line})"],
        ("tree", "report"),
        _COMPILE,
    ),
    ev.CompileEnded: Row(
        lambda run, e: run.end_compile(e),
        lambda e: [f"compile {e.compile_id} ended: {e.outcome}" + (f": {e.detail}" if e.detail else "")],
        ("tree", "report"),
        _COMPILE,
    ),
    ev.StageTimed: Row(_to_compile("stages"), lambda e: [f"stage {e.stage} took {e.seconds:.4f} s"], ("report", "stages")),
    ev.GraphCaptured: Row(_to_compile("graphs"), _graph, ("graph", "tree", "report", "stages")),
    ev.CodeGenerated: Row(_to_compile("code"), _code, ("stages",)),
    ev.GraphLowered: Row(_to_compile("lowered"), lambda e: [f"lower: {op} {how}" for op, how in e.how.items()], ("stages",)),
    ev.CacheLooked: Row(_to_compile("cache"), _looked, ("stages", "tree", "report")),
    ev.GuardInstalled: Row(
        _to_compile("guards"),
        lambda e: [f"guard {e.guard_id}: {e.source} {e.check}" + (f" ({e.file}:{e.line})" if e.file else "")],
        ("guards", "report", "stages"),
    ),
    ev.GraphBroke: Row(_to_compile("breaks"), _broke, ("breaks", "source", "report")),
    ev.Recompiled: Row(
        lambda run, e: run.recompile(e),
        lambda e: [f"recompile of {e.frame}: {e.reason}", *(f"  {line}" for line in e.failures)],
        ("guards", "report"),
    ),
    ev.LimitHit: Row(_to_run("limits"), lambda e: [f"recompile limit {e.limit} reached by {e.frame}: {e.reason}"], ("breaks", "report")),
    ev.FrameSkipped: Row(
        _to_run("skipped"),
        lambda e: [f"frame {e.name} ({e.file}:{e.line}) is not captured: {e.id} {e.reason}"],
        ("breaks", "report"),
        {LOGS: "a line for every frame of a library would hide the rest"},
    ),
    ev.FrozenMiss: Row(_to_run("frozen"), lambda e: [f"frozen, ran without a compile: {e.frame}: {e.reason}"], ("breaks", "report")),
    ev.Decided: Row(_to_compile("decisions"), _decided, ("stages",)),
    ev.StepScheduled: Row(_to_compile("steps"), _scheduled, ("stages",)),
    ev.KernelLoaded: Row(_to_compile("loaded"), _loaded, ("stages",)),
    ev.Note: Row(_to_run("notes"), lambda e: [f"{e.level} {e.id}: {e.message}"], ("report",), _ON_STDERR),
    ev.InternalError: Row(
        _to_run("internal_errors"),
        lambda e: [f"internal error [{e.id}] in {e.where}: {e.error}: {e.message} (raised at {e.raised_at})"],
        ("breaks", "report"),
        _ON_STDERR,
    ),
    ev.MemoryFault: Row(_to_run("memory_faults"), _faulted, ("breaks", "report"), _ON_STDERR),
    ev.SourceRead: Row(
        lambda run, e: run.read_source(e),
        lambda e: [],
        ("source",),
        {LINES: "the text is the user's own", LOGS: "the text is the user's own", JSON: "the text is the user's own"},
    ),
}
