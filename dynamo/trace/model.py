"""From events to the tree everybody shows: run > frame > compile > graph.

The model grows event by event, so a live run and a stored record look the same. Explain texts, `--json` and the TUI are views
of it and hold no facts of their own.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from dynamo.trace import events as ev
from dynamo.trace.events import Event
from dynamo.trace.names import beginning
from dynamo.trace.rows import ROWS

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
    resumes: int = 0
    stack: tuple[str, ...] = ()
    broke_id: str = ""
    broke_file: str = ""
    broke_line: int = 0
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
    loaded: list[ev.KernelLoaded] = field(default_factory=list)
    announced: bool = False

    @property
    def is_cached(self) -> bool:
        """Whether the cache on disk had what the backend makes."""
        return any(c.outcome == "hit" for c in self.cache)

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
        self.module = ""
        self.engine = "dynamo"
        self.exit: int | None = None
        self.live = True  # a stored record without an end is cut off, not running
        self.error = ""
        self.processes: list[ev.ProcessStarted] = []
        self.error_file = ""
        self.error_line = 0
        self.ended_at = 0.0
        self.frames: list[Frame] = []
        self.compiles: dict[str, Compile] = {}
        self.recompiles: list[ev.Recompiled] = []
        self.skipped: list[ev.FrameSkipped] = []
        self.limits: list[ev.LimitHit] = []
        self.frozen: list[ev.FrozenMiss] = []
        self.notes: list[ev.Note] = []
        self.internal_errors: list[ev.InternalError] = []
        self.memory_faults: list[ev.MemoryFault] = []
        self.sources: dict[str, list[str]] = {}
        self.problems: list[str] = []
        self._frames: dict[str, Frame] = {}
        for event in stored:
            self.add(event)

    def add(self, event: Event) -> None:
        ROWS[type(event)].take(self, event)

    def begin(self, e: ev.RunStarted) -> None:
        self.argv, self.cwd, self.versions, self.engine, self.module = e.argv, e.cwd, e.versions, e.engine, e.module

    def end(self, e: ev.RunEnded) -> None:
        self.exit, self.error, self.ended_at = e.exit, e.error, e.t
        if e.file:
            self.error_file, self.error_line = e.file, e.line

    def begin_compile(self, e: ev.CompileStarted) -> None:
        item = self.compile_of(e.compile_id)
        item.name, item.file, item.line, item.parent, item.is_resume = e.name, e.file, e.line, e.parent, e.is_resume
        item.resumes, item.stack = e.resumes, e.stack
        item.started, item.announced = e.t, True
        frame = self.frame_of(e.compile_id)
        if frame.name == "?":
            frame.name, frame.file, frame.line = e.name, e.file, e.line

    def end_compile(self, e: ev.CompileEnded) -> None:
        item = self.compile_of(e.compile_id)
        item.outcome, item.detail, item.ended = e.outcome, e.detail, e.t
        item.broke_id, item.broke_file, item.broke_line = e.id, e.file, e.line

    def recompile(self, e: ev.Recompiled) -> None:
        self.recompiles.append(e)
        self.compile_of(e.compile_id).recompile = e

    def read_source(self, e: ev.SourceRead) -> None:
        self.sources[e.file] = e.text.splitlines()

    @property
    def running(self) -> bool:
        return self.live and self.exit is None

    @property
    def script(self) -> str:
        return self.argv[0] if self.argv else ""

    @property
    def title(self) -> str:
        """What was run, as it was named."""
        if self.module:
            return f"-m {self.module}"
        return "standard input" if self.script == "-" else self.script

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
        if any(e.compile_id == item.id for e in self.internal_errors):
            return STATUSES["error"]
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
        """Wall time inside compiles, nested ones counted once; that of several processes is added up, as the times of stages are."""
        spans = sorted((process_key(c.id), c.started, c.started + c.seconds) for c in self.compiles.values())
        total, process, upto = 0.0, "", 0.0
        for key, start, end in spans:
            upto = upto if key == process else 0.0
            total += max(0.0, end - max(start, upto))
            process, upto = key, max(upto, end)
        return total

    def source(self, file: str) -> list[str]:
        """Lines of a source file: as recorded, otherwise as it is on disk now."""
        if file not in self.sources:
            return [line.rstrip("\n") for line in linecache.getlines(file)]
        return self.sources[file]

    def source_line(self, place: Place) -> str:
        lines = self.source(place[0])
        return lines[place[1] - 1] if 0 < place[1] <= len(lines) else ""


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
    """The tree in order, parents before children. The plain form prints it, the TUI shows it.

    Below the run are its frames, then each process that it started with the frames of that.
    """
    worst = max((run.status(f) for f in run.frames), key=lambda s: s.severity, default=STATUSES["empty"])
    rows = [Item("run", "", 0, short(run.script) or "run", _run_status(run, worst), place=(run.script_file, 1))]
    own = {process.key: [f for f in run.frames if process_key(f.id) == process.key] for process in run.processes}
    for frame in run.frames:
        if process_key(frame.id) not in own:
            rows += _frame_items(run, frame, "run", 1)
    for process in run.processes:
        frames = own[process.key]
        status = max((run.status(f) for f in frames), key=lambda s: s.severity, default=STATUSES["empty"])
        key = f"process {process.key}"
        title = process_title(process) + (f" {short(process.argv[0])}" if process.argv and process.argv[0] != "-c" else "")
        rows.append(Item(key, "run", 1, title, status, _first_id(frames[0]) if frames else ""))
        for frame in frames:
            rows += _frame_items(run, frame, key, 2)
    return rows


def _frame_items(run: Run, frame: Frame, parent: str, depth: int) -> list[Item]:
    """A frame with its compiles and their graphs."""
    key = f"frame {frame.id}"
    title = f"{shown_name(frame.name)} {short(frame.file)}:{frame.line}" if frame.file else shown_name(frame.name)
    rows = [Item(key, parent, depth, title, run.status(frame), _first_id(frame), place=(frame.file, frame.line))]
    for item in frame.compiles:
        title = f"{item.id} {item.seconds:.3f} s" + (" resumed" if item.is_resume else "") + (" cached" if item.is_cached else "")
        here = (item.file, item.line)
        rows.append(Item(f"compile {item.id}", key, depth + 1, title, run.status(item), item.id, place=here))
        for graph in item.graphs:
            stage = "" if graph.stage == CAPTURE else f" {graph.stage}"
            title = f"graph {graph.graph_id} {plural(graph.ops, 'op')}{stage}"
            gkey = f"graph {graph.stage} {graph.graph_id}"
            rows.append(Item(gkey, f"compile {item.id}", depth + 2, title, STATUSES["ok"], item.id, graph.graph_id, here))
    return rows


def process_key(frame_id: str) -> str:
    """What ids of a process begin with; '' for the script's own."""
    head, dot, _ = frame_id.rpartition(".")
    return head + dot


def process_title(process: ev.ProcessStarted) -> str:
    """Rank and process id, as far as there are."""
    return f"rank {process.rank} (pid {process.pid})" if process.rank >= 0 else f"pid {process.pid}"


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
    whole = beginning(name)
    return f"{whole} (resumed)" if whole != name else name


def short(file: str) -> str:
    """The last part of a path: enough to recognise a file in a narrow column."""
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
