"""The order in which fused groups and calls run: by what they depend on, and each no earlier than something needs it.

In: steps in any order. Out: a topological order in which values do not wait long for their readers, so that fewer are alive at once.
A group has members from several places of the program; run at the first of them, one that reads all layers would compute those first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from inductor.ir.nest import Batch, Extern, Program
from inductor.ir.overwrites import Memory


class Touches(Protocol):
    def reads(self) -> frozenset[str]: ...

    def writes(self) -> frozenset[str]: ...


S = TypeVar("S", bound=Touches)


def may_refuse(step: Touches) -> bool:
    """Does running the step raise for some values?"""
    if isinstance(step, Extern):
        return step.may_raise
    nests: Any = (step.nest,) if isinstance(step, Batch) else getattr(step, "members", (step,))
    return any(nest.checks for nest in nests)


@dataclass(frozen=True)
class Write:
    """A nest, or a call, that writes a buffer. `number`: its position in the program. `onto`: it needs what was written before."""

    number: int
    buffer: str
    onto: bool


def numbers_of(program: Program) -> dict[str, int]:
    """Where every nest and call stands, by its name."""
    return {step.name: i for i, step in enumerate(program.steps)}


def writes_of(step: Touches, numbers: Mapping[str, int], otherwise: int) -> Iterator[Write]:
    """What the members of a step write. A step that `numbers` does not name stands at `otherwise`."""
    nests: Any = getattr(step, "members", (step,))
    for nest in nests:
        for buffer in nest.writes():
            yield Write(numbers.get(nest.name, otherwise), buffer, buffer in nest.reads())


def in_order(
    steps: Sequence[S],
    mutated: set[str],
    written: Mapping[str, int],
    memory: Memory | None = None,
    numbers: Mapping[str, int] | None = None,
) -> list[S]:
    """Steps by when they are wanted. `written` says where in the program a buffer got its value, `numbers` where a nest stands."""
    needs = dependences(steps, mutated, memory or Memory(steps), numbers or {})
    wanted = [max((written.get(b, i) for b in step.writes()), default=i) for i, step in enumerate(steps)]
    users: list[list[int]] = [[] for _ in steps]
    for i, found in enumerate(needs):
        for w in found:
            users[w].append(i)
    for i in reversed(run(needs, users, [0] * len(steps))):
        if users[i]:
            wanted[i] = min(wanted[u] for u in users[i]) - 1  # nearer to the end of its chain: what that waits for comes later
    order = run(needs, users, wanted)
    assert len(order) == len(steps), "steps depend on each other in a circle"
    return [steps[i] for i in order]


def dependences(steps: Sequence[Touches], mutated: set[str], memory: Memory, numbers: Mapping[str, int]) -> list[set[int]]:
    """For every step, those that must have run before it.

    Readers of an input that is overwritten come before the writer, and so does everything that may still refuse its arguments: a call
    that raises leaves its inputs as they were. A scatter reads what it adds to: it stays, in the order of the program, behind what has
    filled that, and so do writes to inputs among each other. The order of `steps` does not say it: a group stands where its first member
    stood, or another group that took its members. Pieces of one buffer have no order: a step may write several of them, and read what the
    writer of another piece makes.
    """
    writers: dict[str, list[int]] = {}
    refusing: set[int] = {i for i, step in enumerate(steps) if may_refuse(step)} if mutated else set()
    readers: dict[str, list[int]] = {}
    named: dict[str, int] = {}
    for i, step in enumerate(steps):
        for buffer in step.writes() - mutated:
            writers.setdefault(buffer, []).append(i)
        for buffer in memory.read_by(step) & mutated:
            readers.setdefault(buffer, []).append(i)
        if isinstance(step, Extern):
            named[step.name] = i
    earlier = _earlier_writes(steps, mutated, numbers)

    def needs_of(i: int, step: Touches) -> set[int]:
        found = earlier[i] | {w for b in step.reads() - step.writes() for w in writers.get(b, ())}
        found |= {r for b in step.writes() & mutated for r in readers.get(b, ())}
        if step.writes() & mutated:
            found |= refusing
        if isinstance(step, Extern) and step.after in named:
            found.add(named[step.after])
        return found - {i}

    return [needs_of(i, step) for i, step in enumerate(steps)]


def _earlier_writes(steps: Sequence[Touches], mutated: set[str], numbers: Mapping[str, int]) -> list[set[int]]:
    """For every step, those whose writes to the same buffers must have happened."""
    earlier: list[set[int]] = [set() for _ in steps]
    found = [(write, i) for i, step in enumerate(steps) for write in writes_of(step, numbers, i)]
    pieces: dict[str, list[int]] = {}  # since the last write that is ordered behind all before it, which is the first of them
    ordered: set[str] = set()  # buffers that have such a write
    for write, i in sorted(found, key=lambda pair: pair[0].number):
        before = pieces.setdefault(write.buffer, [])
        if write.onto or write.buffer in mutated:
            earlier[i].update(before)
            ordered.add(write.buffer)
            before.clear()
        elif write.buffer in ordered:
            earlier[i].add(before[0])
        before.append(i)
    return earlier


def run(needs: Sequence[set[int]], users: Sequence[Sequence[int]], priority: Sequence[int]) -> list[int]:
    """Kahn's algorithm: among the steps whose needs are met, the lowest priority first."""
    missing = [len(found) for found in needs]
    ready = [(priority[i], i) for i, count in enumerate(missing) if not count]
    heapq.heapify(ready)
    out = []
    while ready:
        _, i = heapq.heappop(ready)
        out.append(i)
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (priority[user], user))
    return out
