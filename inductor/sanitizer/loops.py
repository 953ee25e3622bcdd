"""A kernel's loops in the interpreter of the IR: bounds and unwritten memory of every access, and races between its iterations.

Iterations of the loops that a kernel shares out run in any order, and so do the points of one stage of an iteration: `Races` keeps for
every element that a kernel stores the least and the greatest iteration that touched it, so that nothing is looped over in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from inductor.ir.affine import Axis
from inductor.ir.dims import number
from inductor.ir.interp import RACE, Access, Memory, NestRun
from inductor.ir.nest import Nest
from inductor.sanitizer.faults import LOOPS, Fault, lines_of
from inductor.schedule.kernel import Kernel

MOST_POINTS = 1 << 23  # of a nest that are looked at together: values of all of them are in memory
INDEX = "index"
NOBODY = (1 << 62, -1)

Found = Callable[[Fault], None]


class TooLarge(RuntimeError):
    """A nest that has more points than memory can hold, in one iteration of its outer loops."""


class Touched:
    """Per element of a buffer: the least and the greatest of those that touched it."""

    def __init__(self, size: int, device: str) -> None:
        self.low = torch.full((size,), NOBODY[0], dtype=torch.int64, device=device)
        self.high = torch.full((size,), NOBODY[1], dtype=torch.int64, device=device)

    def add(self, elements: torch.Tensor, who: torch.Tensor) -> None:
        self.low.scatter_reduce_(0, elements, who, "amin")
        self.high.scatter_reduce_(0, elements, who, "amax")


@dataclass
class Races:
    """Accesses to one buffer: plain stores, loads, and atomic additions."""

    stores: Touched
    loads: Touched
    atomics: Touched

    @classmethod
    def of(cls, size: int, device: str) -> Races:
        return cls(Touched(size, device), Touched(size, device), Touched(size, device))

    def add(self, access: Access, elements: torch.Tensor, who: torch.Tensor) -> None:
        kind = self.loads if access.what == LOAD else self.atomics if access.is_atomic else self.stores
        kind.add(elements, who)

    def found(self) -> tuple[int, int, int] | None:
        """The first element of a race, and two that touch it. Several may load it, or add to it; not both, nor beside one that stores."""
        stores, loads, atomics = self.stores, self.loads, self.atomics
        low = torch.minimum(torch.minimum(stores.low, loads.low), atomics.low)
        high = torch.maximum(torch.maximum(stores.high, loads.high), atomics.high)
        clash = (low < high) & ((stores.high >= 0) | ((atomics.high >= 0) & (loads.high >= 0)))
        if not bool(clash.any()):
            return None
        at = int(clash.nonzero()[0])
        return at, int(low[at]), int(high[at])


LOAD = "load of"


@dataclass
class Checker:
    """One kernel. `stored`: which elements of each buffer its loops store."""

    kernel: str
    outer: tuple[Axis, ...]
    writes: frozenset[str]
    memory: Memory
    found: Found
    stored: dict[str, torch.Tensor] = field(default_factory=dict)
    scattered: set[str] = field(default_factory=set)
    bad_index: str = ""

    def __post_init__(self) -> None:
        self.among = {b: self.races(b) for b in self.writes}
        self.makers: dict[str, list[Nest]] = {}

    def races(self, buffer: str) -> Races:
        return Races.of(self.memory.data[buffer].numel(), self.memory.device)

    def run(self, stages: Sequence[Sequence[Nest]]) -> None:
        """Stage after stage, each with all of its points."""
        for members in stages:
            within = {b: self.races(b) for nest in members for b in nest.writes()}
            points = {a: k for k, a in enumerate(dict.fromkeys(a for n in members for a in (*n.axes, *n.reduced) if a not in self.outer))}
            for nest in members:
                for b in nest.writes():
                    self.makers.setdefault(b, []).append(nest)
                for span in spans(nest):
                    Watched(nest, self, within, tuple(points), span).run()
            for buffer, races in within.items():
                self.tell(races, buffer, (*self.outer, *points), "in one stage")
        for buffer, races in self.among.items():
            self.tell(races, buffer, self.outer, "at once")

    def tell(self, races: Races, buffer: str, axes: tuple[Axis, ...], how: str) -> None:
        clash = races.found()
        if clash is None:
            return
        at, low, high = clash
        nests = self.makers.get(buffer, [])
        place = f"{decoded(low, axes)} and {decoded(high, axes)}, which may run {how}"
        lines = lines_of(o for n in nests for o in n.origins)
        names = "+".join(dict.fromkeys(n.name for n in nests))
        self.report(RACE, buffer, f"{names} stores what another iteration touches", at, place, lines)

    def report(self, kind: str, buffer: str, access: str, index: int, place: str, lines: tuple[str, ...], size: int = -1) -> None:
        size = self.memory.data[buffer].numel() if buffer else size
        self.found(Fault(kind, LOOPS, self.kernel, buffer, access, index, size, place, lines))


class Watched(NestRun):
    """A nest, or some iterations of it, whose faults are reported while it goes on."""

    def __init__(self, nest: Nest, checker: Checker, within: dict[str, Races], points: tuple[Axis, ...], span: Span | None) -> None:
        super().__init__(nest, checker.memory, lambda origin: None, span)
        self.checker, self.within, self.points = checker, within, points

    def fault(self, access: Access, kind: str, what: str, at: torch.Tensor, wrong: torch.Tensor) -> None:
        element = int(at[wrong][0])
        self.checker.report(kind, access.buffer, f"{access} {what}", element, self.place(wrong), lines_of(self.nest.origins))

    def place(self, wrong: torch.Tensor) -> str:
        point = [int(k) for k in wrong.nonzero()[0]]
        point += [0] * (len(self.axes) - len(point))
        return ", ".join(f"{a.name}={k + self.first(a)}" for a, k in zip(self.axes, point, strict=True)) or "its only point"

    def check(self, value: torch.Tensor, size: int, mask: torch.Tensor | None) -> torch.Tensor:
        try:
            return super().check(value, size, mask)
        except IndexError as error:
            outside = (value < 0) | (value >= size)
            wrong, values = torch.broadcast_tensors(outside if mask is None else outside & mask, value)
            self.checker.bad_index = self.checker.bad_index or str(error)
            self.checker.report(
                INDEX, "", "an index is computed", int(values[wrong][0]), self.place(wrong), lines_of(self.nest.origins), size
            )
            return torch.where(outside, 0, value)

    def accessed(self, access: Access, at: torch.Tensor, live: torch.Tensor) -> None:
        buffer = access.buffer
        if buffer not in self.checker.among:
            return
        if access.what != LOAD:
            stored = self.checker.stored.setdefault(buffer, torch.zeros_like(self.memory.written[buffer]))
            stored[at[live]] = True
        if access.is_scatter and not access.is_atomic:  # the program says who wins: nobody
            self.checker.scattered.add(buffer)
            return
        for races, axes in (
            (self.checker.among[buffer], self.checker.outer),
            (self.within.get(buffer), (*self.checker.outer, *self.points)),
        ):
            if races is not None:
                here = self.axes if access.what == LOAD else self.nest.axes  # what is reduced is stored once
                elements, alive, who = torch.broadcast_tensors(at, live, self.who(axes, here))
                races.add(access, elements[alive], who[alive])

    def who(self, axes: tuple[Axis, ...], here: tuple[Axis, ...]) -> torch.Tensor:
        """The number of the iteration of some loops, at every point of those that are `here`."""
        total = torch.zeros(self.ones, dtype=torch.int64, device=self.device)
        for axis in axes:
            total = total * number(axis.extent)
            if axis in here:
                total = total + self.axis(axis, ())
        return total


Span = tuple[Axis, int, int]


def spans(nest: Nest) -> list[Span | None]:
    """The nest in parts that memory can hold. Raises TooLarge."""
    if nest.points <= MOST_POINTS:
        return [None]
    axis = max((a for a in nest.axes if a not in nest.scanned), key=lambda a: number(a.extent), default=None)
    length = 1 if axis is None else number(axis.extent)
    each = nest.points // length
    if axis is None or each > MOST_POINTS:
        raise TooLarge(f"{nest.name} has {nest.points} points")
    step = max(MOST_POINTS // each, 1)
    return [(axis, start, min(start + step, length)) for start in range(0, length, step)]


def decoded(who: int, axes: tuple[Axis, ...]) -> str:
    """The iteration of a number of `Watched.who`."""
    parts = []
    for axis in reversed(axes):
        who, k = divmod(who, number(axis.extent))
        parts.append(f"{axis.name}={k}")
    return " ".join(reversed(parts)) or "the only iteration"


def stages_of(kernel: Kernel) -> list[list[Nest]]:
    return [list(stage.members) for stage in kernel.stages]
