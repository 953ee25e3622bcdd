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

    def has_failure(self, *kinds: str) -> bool:
        return any(f.kind in kinds for f in self.failures)

    @property
    def break_id(self) -> str:
        return max(self.breaks, key=lambda b: b.count).id if self.breaks else ""


@dataclass(frozen=True)
class _Row:
    """`when` decides, `command` and `why` are filled with the target and the id of the commonest break."""

    when: Callable[[_Found], bool]
    command: str
    why: str


_ROWS = (
    _Row(lambda f: f.has_failure("compiler", "compile"), "minify {target}", "the smallest graph that still fails, as a script"),
    _Row(lambda f: bool(f.breaks), "breaks {target}", "every break with its stack, why, and what to write instead"),
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
