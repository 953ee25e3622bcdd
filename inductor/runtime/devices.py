"""The kinds of devices, by torch's name: one row each, and what runs on one. A half is imported when it is first asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from inductor.runtime.pool import Job
from inductor.runtime.recipe import Recipe

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]
Library = Any  # what a source becomes: the target's own


class Runtime(Protocol):
    """Runs what was compiled. Its other half, which compiles, is `inductor.targets.protocol.Target`."""

    def versions(self) -> tuple[str, ...]:
        """What builds, and for which machine: compiled graphs are kept for these."""

    def start(self, source: str) -> Library | Job[Library]:
        """The library of a source, or the job that builds it in the background. Raises BuildError."""

    def program(self, recipe: Recipe, library: Library | None) -> Compiled:
        """The callable of a recipe: it allocates, launches the kernels of the library and calls operators, in the recipe's order."""


@dataclass(frozen=True)
class Row:
    """Where the halves of a target are, as `module:class` below `inductor.targets`: a graph that the cache knows needs one only."""

    target: str
    runtime: str


ROWS = {
    "cpu": Row("cpu.target:CpuTarget", "cpu.runtime:CpuRuntime"),
    "cuda": Row("triton.target:TritonTarget", "triton.runtime:TritonRuntime"),
}
DEVICES = tuple(ROWS)


@functools.cache
def runtime(device: str) -> Runtime:
    """What runs on a device. Raises KeyError for one of no row."""
    return made(ROWS[device].runtime)


def made(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(f"inductor.targets.{module}"), name)()
