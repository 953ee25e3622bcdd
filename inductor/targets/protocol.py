"""What a kind of device has to offer. Everything above (passes, lowering, schedule, verifier, interpreter) knows a target only as this.

Two halves, because a graph that the cache knows is run without being compiled: `Target` makes kernels and their source, `Runtime` makes a
source runnable. A target is a folder beside this file and a row in `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from inductor.ir.nest import Batch, Program
from inductor.runtime.pool import Job
from inductor.runtime.recipe import Recipe
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]
Library = Any  # what a source becomes: the target's own


@dataclass(frozen=True)
class Text:
    """What a stage puts into the record for people: the name's last part, and the language it is shown in."""

    stage: str
    suffix: str
    language: str
    code: str


class Runtime(Protocol):
    """Runs what was compiled."""

    def versions(self) -> tuple[str, ...]:
        """What builds, and for which machine: compiled graphs are kept for these."""

    def start(self, source: str) -> Library | Job[Library]:
        """The library of a source, or the job that builds it in the background. Raises BuildError."""

    def program(self, recipe: Recipe, library: Library | None) -> Compiled:
        """The callable of a recipe: it allocates, launches the kernels of the library and calls operators, in the recipe's order."""


class Target(Protocol):
    """Compiles for one kind of device. `name` is torch's name of the device."""

    name: str
    limits: Limits

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> Kernel:
        """The kernel of a group. `needed` are the buffers it writes that something else reads."""

    def batch(self, name: str, batch: Batch, program: Program) -> Kernel:
        """The kernel of equal nests over many buffers."""

    def source(self, plan: Plan) -> str:
        """The text that `Runtime.start` takes: all kernels of a graph, in order."""

    def texts(self, plan: Plan, source: str, graph_id: str) -> Iterator[Text]:
        """What to show of it."""
