"""From events to the tree everybody shows: run > frame > compile > graph.

The model grows event by event, so a live run and a stored record look the same. Explain texts, `--json` and the TUI are views
of it and hold no facts of their own.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dynamo.trace import events as ev
from dynamo.trace.events import Event

Place = tuple[str, int]
CAPTURE = "capture"


@dataclass(frozen=True)
class Status:
    """How a thing stands: always glyph, colour and word together, so that none of them carries the meaning alone."""

    word: str
    glyph: str
    colour: str
    severity: int


STATUSES: dict[str, Status] = {
    s.word: s
    for s in (
        Status("ok", "✓", "green", 0),
        Status("empty", "○", "cyan", 1),
        Status("skipped", "−", "cyan", 2),
        Status("running", "…", "blue", 3),
        Status("recompile", "↻", "yellow", 4),
        Status("break", "✗", "yellow", 5),
        Status("missing", "?", "magenta", 6),
        Status("error", "!", "red", 7),
    )
}
OUTCOMES = frozenset({"ok", "break", "empty", "skipped", "error"})


@dataclass
class Compile:
    """One compilation of one frame. `started` and `ended` are seconds since the run began."""

    id: str
    name: str = "?"
    file: str = ""
    line: int = 0
    parent: str = ""
    is_resume: bool = False
    started: float = 0.0
    ended: float | None = None
    outcome: str = ""
    detail: str = ""
    graphs: list[ev.GraphCaptured] = field(default_factory=list)
    guards: list[ev.GuardInstalled] = field(default_factory=list)
    breaks: list[ev.GraphBroke] = field(default_factory=list)
    recompile: ev.Recompiled | None = None
    stages: list[ev.StageTimed] = field(default_factory=list)
    code: list[ev.CodeGenerated] = field(default_factory=list)
    cache: list[ev.CacheLooked] = field(default_factory=list)
    lowered: list[ev.GraphLowered] = field(default_factory=list)
    decisions: list[ev.Decided] = field(default_factory=list)
    steps: list[ev.StepScheduled] = field(default_factory=list)
    announced: bool = False

    @property
    def seconds(self) -> float:
        """From start to end; for a compile that never said it ended, up to the end of its last stage."""
        last = max((s.start + s.seconds for s in self.stages), default=self.started)
        return max(0.0, (self.ended if self.ended is not None else last) - self.started)


@dataclass
class Frame:
    """All compiles of one code object."""

    id: str
    name: str = "?"
    file: str = ""
    line: int = 0
    compiles: list[Compile] = field(default_factory=list)


@dataclass
class StageTotal:
    """Time of one stage over the whole run."""

    stage: str
    count: int = 0
    seconds: float = 0.0


class Run:
    """The whole run. Feed it with `add`; read its lists."""

    def __init__(self, stored: Iterable[Event] = ()) -> None:
        self.argv: tuple[str, ...] = ()
        self.cwd = ""
        self.versions: dict[str, str] = {}
        self.engine = "dynamo"
        self.exit: int | None = None
        self.error = ""
        self.frames: list[Frame] = []
        self.compiles: dict[str, Compile] = {}
        self.recompiles: list[ev.Recompiled] = []
        self.skipped: list[ev.FrameSkipped] = []
        self.limits: list[ev.LimitHit] = []
        self.frozen: list[ev.FrozenMiss] = []
        self.notes: list[ev.Note] = []
        self.internal_errors: list[ev.InternalError] = []
        self.sources: dict[str, list[str]] = {}
        self.problems: list[str] = []
        self._frames: dict[str, Frame] = {}
        for event in stored:
            self.add(event)

    def add(self, event: Event) -> None:
        _TAKERS[type(event)](self, event)

    @property
    def running(self) -> bool:
        return self.exit is None

    @property
    def script(self) -> str:
        return self.argv[0] if self.argv else ""

    @property
    def script_file(self) -> str:
        return script_file(self.argv, self.cwd)

    @property
    def all_graphs(self) -> list[ev.GraphCaptured]:
        """Graphs of every stage."""
        return [g for c in self.compiles.values() for g in c.graphs]

    @property
    def graphs(self) -> list[ev.GraphCaptured]:
        """The graphs as they were captured from Python."""
        return [g for g in self.all_graphs if g.stage == CAPTURE]

    @property
    def later_graphs(self) -> list[ev.GraphCaptured]:
        """What later stages made of them."""
        return [g for g in self.all_graphs if g.stage != CAPTURE]

    @property
    def breaks(self) -> list[ev.GraphBroke]:
        return [b for c in self.compiles.values() for b in c.breaks]

    @property
    def guards(self) -> list[ev.GuardInstalled]:
        return [g for c in self.compiles.values() for g in c.guards]

    def compile_of(self, compile_id: str) -> Compile:
        """The compile with that id. One is made up when the record lost its beginning."""
        found = self.compiles.get(compile_id)
        if found is None:
            found = self.compiles[compile_id] = Compile(compile_id)
            self._frame_of(compile_id).compiles.append(found)
        return found

    def frame_of(self, compile_id: str) -> Frame:
        return self._frames[compile_id.split("/")[0]]

    def _frame_of(self, compile_id: str) -> Frame:
        key = compile_id.split("/")[0]
        if key not in self._frames:
            self._frames[key] = Frame(key)
            self.frames.append(self._frames[key])
        return self._frames[key]

    def status(self, item: Compile | Frame) -> Status:
        if isinstance(item, Frame):
            return max((self.status(c) for c in item.compiles), key=lambda s: s.severity, default=STATUSES["missing"])
        if item.outcome in OUTCOMES:
            if item.outcome == "ok" and item.recompile is not None:
                return STATUSES["recompile"]
            return STATUSES[item.outcome]
        return STATUSES["running" if self.running and item.announced else "missing"]

    def times(self) -> list[StageTotal]:
        """Time per stage over all compiles, in order of first use."""
        totals: dict[str, StageTotal] = {}
        for item in self.compiles.values():
            for s in item.stages:
                total = totals.setdefault(s.stage, StageTotal(s.stage))
                total.count += 1
                total.seconds += s.seconds
        return list(totals.values())

    def compile_seconds(self) -> float:
        """Wall time inside compiles, nested ones counted once."""
        spans = sorted((c.started, c.started + c.seconds) for c in self.compiles.values())
        total, upto = 0.0, 0.0
        for start, end in spans:
            total += max(0.0, end - max(start, upto))
            upto = max(upto, end)
        return total

    def source(self, file: str) -> list[str]:
        """Lines of a source file: as recorded, otherwise as it is on disk now."""
        if file not in self.sources:
            return [line.rstrip("\n") for line in linecache.getlines(file)]
        return self.sources[file]

    def source_line(self, place: Place) -> str:
        lines = self.source(place[0])
        return lines[place[1] - 1] if 0 < place[1] <= len(lines) else ""


def _run_started(run: Run, e: ev.RunStarted) -> None:
    run.argv, run.cwd, run.versions, run.engine = e.argv, e.cwd, e.versions, e.engine


def _run_ended(run: Run, e: ev.RunEnded) -> None:
    run.exit, run.error = e.exit, e.error


def _compile_started(run: Run, e: ev.CompileStarted) -> None:
    item = run.compile_of(e.compile_id)
    item.name, item.file, item.line, item.parent, item.is_resume = e.name, e.file, e.line, e.parent, e.is_resume
    item.started, item.announced = e.t, True
    frame = run.frame_of(e.compile_id)
    if frame.name == "?":
        frame.name, frame.file, frame.line = e.name, e.file, e.line


def _compile_ended(run: Run, e: ev.CompileEnded) -> None:
    item = run.compile_of(e.compile_id)
    item.outcome, item.detail, item.ended = e.outcome, e.detail, e.t


def _recompiled(run: Run, e: ev.Recompiled) -> None:
    run.recompiles.append(e)
    run.compile_of(e.compile_id).recompile = e


def _source_read(run: Run, e: ev.SourceRead) -> None:
    run.sources[e.file] = e.text.splitlines()


def _to_compile(name: str) -> Callable[[Run, Any], None]:
    return lambda run, e: getattr(run.compile_of(e.compile_id), name).append(e)


def _to_run(name: str) -> Callable[[Run, Any], None]:
    return lambda run, e: getattr(run, name).append(e)


_TAKERS: dict[type[Event], Callable[[Run, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.RunEnded: _run_ended,
    ev.CompileStarted: _compile_started,
    ev.CompileEnded: _compile_ended,
    ev.StageTimed: _to_compile("stages"),
    ev.GraphCaptured: _to_compile("graphs"),
    ev.CodeGenerated: _to_compile("code"),
    ev.CacheLooked: _to_compile("cache"),
    ev.GraphLowered: _to_compile("lowered"),
    ev.GuardInstalled: _to_compile("guards"),
    ev.GraphBroke: _to_compile("breaks"),
    ev.Recompiled: _recompiled,
    ev.LimitHit: _to_run("limits"),
    ev.FrameSkipped: _to_run("skipped"),
    ev.FrozenMiss: _to_run("frozen"),
    ev.Decided: _to_compile("decisions"),
    ev.StepScheduled: _to_compile("steps"),
    ev.Note: _to_run("notes"),
    ev.InternalError: _to_run("internal_errors"),
    ev.SourceRead: _source_read,
}


@dataclass(frozen=True)
class Item:
    """One row of the tree run > frame > compile > graph. `key` is unique in the run; `parent` is '' for the root."""

    key: str
    parent: str
    depth: int
    title: str
    status: Status
    compile_id: str = ""
    graph_id: str = ""
    place: Place = ("", 0)


def items(run: Run) -> list[Item]:
    """The tree in order, parents before children. The plain form prints it, the TUI shows it."""
    worst = max((run.status(f) for f in run.frames), key=lambda s: s.severity, default=STATUSES["empty"])
    root = Item("run", "", 0, short(run.script) or "run", _run_status(run, worst), place=(run.script_file, 1))
    rows = [root]
    for frame in run.frames:
        key = f"frame {frame.id}"
        title = f"{shown_name(frame.name)} {short(frame.file)}:{frame.line}" if frame.file else shown_name(frame.name)
        rows.append(Item(key, "run", 1, title, run.status(frame), _first_id(frame), place=(frame.file, frame.line)))
        for item in frame.compiles:
            title = f"{item.id} {item.seconds:.3f} s" + (" resumed" if item.is_resume else "")
            here = (item.file, item.line)
            rows.append(Item(f"compile {item.id}", key, 2, title, run.status(item), item.id, place=here))
            for graph in item.graphs:
                stage = "" if graph.stage == CAPTURE else f" {graph.stage}"
                title = f"graph {graph.graph_id} {plural(graph.ops, 'op')}{stage}"
                gkey = f"graph {graph.stage} {graph.graph_id}"
                rows.append(Item(gkey, f"compile {item.id}", 3, title, STATUSES["ok"], item.id, graph.graph_id, here))
    return rows


def _first_id(frame: Frame) -> str:
    return frame.compiles[0].id if frame.compiles else ""


def _run_status(run: Run, worst: Status) -> Status:
    if run.running:
        return STATUSES["running"]
    return STATUSES["error"] if run.exit else worst


def script_file(argv: tuple[str, ...], cwd: str) -> str:
    """Full path of the script, as its frames carry it."""
    return os.path.normpath(os.path.join(cwd, argv[0])) if argv else ""


def shown_name(name: str) -> str:
    """Name of a frame for people: the part of a function after a break is named after the function."""
    base, resumed, _ = name.partition("__resume_at_")
    return f"{base} (resumed)" if resumed else name


def short(file: str) -> str:
    """The last part of a path: enough to recognise a file in a narrow column."""
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def places_of(graph: ev.GraphCaptured) -> set[Place]:
    return {(n.file, n.line) for n in graph.nodes if n.file}
