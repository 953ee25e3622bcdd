"""Where compile time went: stages inside stages, so that the parts of a time add up to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dynamo.trace.events import StageTimed
from dynamo.trace.model import Compile, Run
from tui.views import names
from tui.views.page import Page, columns

REST = "other"
_BAR = 30


@dataclass(frozen=True)
class Time:
    """One stage over all compiles: `seconds` with its parts, `own` without. Parts and own add up to `seconds`."""

    stage: str
    count: int
    seconds: float
    own: float
    parts: tuple[Time, ...] = ()


@dataclass(frozen=True)
class Span:
    """One compile on the clock of the run."""

    compile_id: str
    function: str
    file: str
    line: int
    start: float
    seconds: float
    status: str
    cached: bool


@dataclass(frozen=True)
class Timeline:
    """`compile_seconds` is wall time inside compiles, nested ones counted once; `run_seconds` how long the run was watched."""

    run_seconds: float
    compile_seconds: float
    stages: tuple[Time, ...]
    compiles: tuple[Span, ...]


@dataclass
class _Node:
    """A stage while times are summed."""

    stage: str
    count: int = 0
    seconds: float = 0.0
    parts: dict[str, _Node] = field(default_factory=dict)

    def done(self) -> Time:
        parts = tuple(part.done() for part in self.parts.values())
        return Time(self.stage, self.count, self.seconds, max(0.0, self.seconds - sum(p.seconds for p in parts)), parts)


def view(run: Run) -> Timeline:
    ends = [c.started + c.seconds for c in run.compiles.values()]
    spans = [_span(run, c) for c in run.compiles.values()]
    return Timeline(run.ended_at or max(ends, default=0.0), run.compile_seconds(), stages(run), tuple(sorted(spans, key=lambda s: s.start)))


def _span(run: Run, item: Compile) -> Span:
    function = names.function_of(run, item)
    return Span(item.id, function.title, function.file, function.line, item.started, item.seconds, run.status(item).word, item.is_cached)


def stages(run: Run) -> tuple[Time, ...]:
    """The stages of all compiles, each with those that ran inside it; what no stage accounts for is `other`."""
    top = _Node("")
    for item in run.compiles.values():
        _nest(top, item.stages)
    found = [part.done() for part in top.parts.values()]
    rest = run.compile_seconds() - sum(t.seconds for t in found)
    if found and rest > 0:
        found.append(Time(REST, len(run.compiles), rest, rest))
    return tuple(found)


def _nest(top: _Node, timed: Iterable[StageTimed]) -> None:
    """Put every stage below the one it ran in. Starts and ends say which: stages of one compile never overlap by half."""
    open_: list[tuple[float, _Node]] = []
    for s in sorted(timed, key=lambda s: (s.start, -s.seconds)):
        while open_ and s.start >= open_[-1][0] - 1e-9:
            open_.pop()
        node = open_[-1][1] if open_ else top
        inner = node.parts.setdefault(s.stage, _Node(s.stage))
        inner.count += 1
        inner.seconds += s.seconds
        open_.append((s.start + s.seconds, inner))


def slowest(found: Iterable[Time]) -> Time | None:
    """The stage with the most time of its own, at any depth."""
    every: list[Time] = []
    waiting = list(found)
    while waiting:
        at = waiting.pop()
        every.append(at)
        waiting += at.parts
    return max((t for t in every if t.stage != REST), key=lambda t: t.own, default=None)


def lines(found: Timeline, page: Page) -> list[str]:
    """Stages as a tree with bars, then the compiles in order."""
    out = [page.paint(f"{found.compile_seconds:.3f} s compiling in a run of {found.run_seconds:.3f} s", "bold"), ""]
    out += stage_lines(found.stages, found.compile_seconds, page)
    if found.compiles:
        rows = [
            (f"{s.start:.3f}", f"{s.seconds:.3f} s", s.compile_id, s.status, s.function + (" (from the cache)" if s.cached else ""))
            for s in found.compiles
        ]
        out += ["", page.paint("compiles", "bold"), *(page.clip(f"  {row}") for row in columns(rows, right=(0, 1)))]
    return out


def stage_lines(found: Iterable[Time], whole: float, page: Page) -> list[str]:
    rows: list[tuple[str, ...]] = []
    _rows(found, whole, 0, rows)
    return [page.clip(f"  {row}") for row in columns(rows, right=(1, 2))]


def _rows(found: Iterable[Time], whole: float, depth: int, rows: list[tuple[str, ...]]) -> None:
    for t in sorted(found, key=lambda t: (t.stage == REST, -t.seconds)):
        share = t.seconds / whole if whole > 0 else 0.0
        rows.append(("  " * depth + t.stage, f"{t.seconds:.4f} s", f"{t.count}x", "▇" * round(share * _BAR)))
        if t.parts:
            _rows(t.parts, whole, depth + 1, rows)
            if t.own > 0:
                rows.append(("  " * (depth + 1) + f"({t.stage} itself)", f"{t.own:.4f} s", "", ""))
