"""What to do next: commands to paste, chosen by what was found. One row per command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui.views.breaks import BreakPlace
from tui.views.failures import Failure
from tui.views.recompiles import Group


@dataclass(frozen=True)
class Step:
    """A command line and what it shows."""

    command: str
    why: str


@dataclass(frozen=True)
class _Found:
    target: str
    breaks: tuple[BreakPlace, ...]
    recompiles: tuple[Group, ...]
    failures: tuple[Failure, ...]
    compiled: bool
    engine: str

    @property
    def can_minify(self) -> bool:
        """A break that `fullgraph=True` refused has its line already."""
        return any(f.kind == "compiler" or (f.kind == "compile" and not f.id) for f in self.failures)

    @property
    def break_id(self) -> str:
        if self.breaks:
            return max(self.breaks, key=lambda b: b.count).id
        return next((f.id for f in self.failures if f.kind == "compile"), "")


@dataclass(frozen=True)
class _Row:
    """`when` decides, `command` and `why` are filled with the target and the id of the commonest break."""

    when: Callable[[_Found], bool]
    command: str
    why: str


_ROWS = (
    _Row(lambda f: f.can_minify, "minify {target}", "the smallest graph that still fails, as a script"),
    _Row(lambda f: bool(f.breaks), "breaks {target}", "each break: stack, reason, what to write instead"),
    _Row(lambda f: f.break_id.startswith(("DD", "GB")), "explain --code {id}", "the page of {id}"),
    _Row(lambda f: bool(f.recompiles), "recompiles {target}", "every recompile with all values"),
    _Row(lambda f: f.compiled, "graphs {target}", "what was captured, with shapes and lines"),
    _Row(lambda f: f.compiled, "timeline {target}", "where compile time went"),
    _Row(lambda f: f.compiled, "tui {target}", "walk through it"),
)
_MOST = 5


def steps(
    target: str, breaks: tuple[BreakPlace, ...], again: tuple[Group, ...], failed: tuple[Failure, ...], compiled: bool, engine: str
) -> tuple[Step, ...]:
    """The most useful commands first."""
    found = _Found(target, breaks, again, failed, compiled, engine)
    words = {"target": f"--engine {engine} {target}" if engine != "dynamo" else target, "id": found.break_id}
    chosen = [row for row in _ROWS if row.when(found)][:_MOST]
    return tuple(Step(f"dynamo-debug {row.command.format(**words)}", row.why.format(**words)) for row in chosen)
