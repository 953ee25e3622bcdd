"""Fuel: every optional rewrite, lowering choice and fusion asks here first.

Decisions are numbered from 1 in the order they are asked. `DYNAMO_FUEL` holds comma-separated limits:

| entry | meaning |
|---|---|
| `all` | no limit (the default) |
| `37` | take decisions 1 to 37 and refuse the rest |
| `#37` | refuse decision 37 alone |
| `#37-40` | refuse decisions 37 to 40 |
| `fuse:12` | take the first 12 decisions of stage `fuse` |
| `-fuse` | refuse every decision of stage `fuse` |

A compiler that refuses every decision must still be correct: that is what lets a bisector end at one decision.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from dynamo.surroundings.locks import Lock
from dynamo.trace import emit, is_watched
from dynamo.trace.events import Decided


class FuelError(ValueError):
    """`DYNAMO_FUEL` cannot be read; the message names the entry."""


@dataclass
class Fuel:
    """Limits and the counters they are compared with."""

    total: int | None = None
    stages: dict[str, int] = field(default_factory=dict)
    refused: tuple[range, ...] = ()
    taken: int = 0
    per_stage: Counter[str] = field(default_factory=Counter)
    lock: Lock = field(default_factory=Lock)

    def decide(self, stage: str) -> tuple[int, bool]:
        with self.lock:
            self.taken += 1
            self.per_stage[stage] += 1
            within_total = self.total is None or self.taken <= self.total
            limit = self.stages.get(stage)
            within_stage = limit is None or self.per_stage[stage] <= limit
            return self.taken, within_total and within_stage and not any(self.taken in numbers for numbers in self.refused)


def parse(text: str) -> Fuel:
    """Read the value of `DYNAMO_FUEL`."""
    fuel = Fuel()
    refused: list[range] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        stage, colon, number = entry.rpartition(":")
        try:
            if entry == "all":
                continue
            if entry.startswith("#"):
                first, dash, last = entry[1:].partition("-")
                refused.append(range(int(first), int(last if dash else first) + 1))
            elif entry.startswith("-"):
                fuel.stages[entry[1:]] = 0
            elif colon:
                fuel.stages[stage] = int(number)
            else:
                fuel.total = int(entry)
        except ValueError:
            raise FuelError(f"DYNAMO_FUEL: cannot read {entry!r}; write `all`, `37`, `#37`, `#37-40`, `fuse:12` or `-fuse`") from None
    fuel.refused = tuple(refused)
    return fuel


NO_FUEL = "refused by DYNAMO_FUEL"
_fuel = parse(os.environ.get("DYNAMO_FUEL", "all"))
_default = _fuel
_compile_id = threading.local()


def decide(stage: str, what: str, reason: str = "") -> bool:
    """May this optional step be taken? Counts it, and records the answer. `reason` says why the caller wants it."""
    number, taken = _fuel.decide(stage)
    emit(Decided(current_compile(), number, stage, what, taken, reason if taken else NO_FUEL, current_graph()))
    return taken


def refuse(stage: str, what: str, reason: str) -> None:
    """Record a step that is not taken whatever the fuel: it would be wrong or would not pay. Costs nothing while nobody looks."""
    if is_watched():
        emit(Decided(current_compile(), 0, stage, what, False, reason, current_graph()))


@contextmanager
def compiling(compile_id: str, graph_id: str = "") -> Iterator[None]:
    """Decisions inside belong to this compile, and to this graph of it."""
    before = getattr(_compile_id, "value", ""), getattr(_compile_id, "graph", "")
    _compile_id.value, _compile_id.graph = compile_id, graph_id
    try:
        yield
    finally:
        _compile_id.value, _compile_id.graph = before


def current_compile() -> str:
    """The compile id `compiling` has set in this thread, or ''."""
    return getattr(_compile_id, "value", "")


def current_graph() -> str:
    """The graph id `compiling` has set in this thread, or ''."""
    return getattr(_compile_id, "graph", "")


def is_limited() -> bool:
    """Whether anything but the default is in force: a limit, or a tool that counts."""
    return _fuel is not _default or bool(_fuel.stages or _fuel.refused) or _fuel.total is not None


def counted() -> dict[str, int]:
    """How many decisions each stage has asked for so far."""
    return dict(_fuel.per_stage)


def pass_over(counts: Mapping[str, int]) -> int:
    """Count decisions that were taken in an earlier process, so that later ones keep their numbers. Returns the first number."""
    with _fuel.lock:
        first = _fuel.taken + 1
        _fuel.taken += sum(counts.values())
        _fuel.per_stage.update(counts)
        return first


@contextmanager
def limited(text: str) -> Iterator[Fuel]:
    """Other limits, counted from zero, for a while. For tests and the bisector. What is compiled stays so until `dynamo.reset()`."""
    global _fuel
    before, _fuel = _fuel, parse(text)
    try:
        yield _fuel
    finally:
        _fuel = before
