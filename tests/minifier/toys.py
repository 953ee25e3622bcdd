"""Problems that are reduced in a millisecond: lists of numbers, texts, graphs."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from minifier.engine import Edit, FunctionTransport, Lower, Options, Problem, Result, Size, Sweep, minimise

Numbers = tuple[int, ...]


class NumberList(Problem[Numbers]):
    """Numbers that are removed, then lowered to zero."""

    def __init__(self, lowers: bool = True) -> None:
        sweep: Sweep[Numbers] = Sweep("remove", lambda s: range(len(s)), Edit("remove", self._without))
        lower: Lower[Numbers] = Lower("lower", lambda s: range(len(s)), lambda s, i: s[int(str(i))], lambda s, i: 0, self._with)
        self.passes = [sweep, lower] if lowers else [sweep]

    def size(self, state: Numbers) -> Size:
        return len(state), state

    def serialise(self, state: Numbers) -> bytes:
        return json.dumps(state).encode()

    def restore(self, data: bytes) -> Numbers:
        return tuple(json.loads(data))

    @staticmethod
    def _without(state: Numbers, positions: Sequence[int]) -> Numbers:
        gone = set(positions)
        return tuple(n for i, n in enumerate(state) if i not in gone)

    @staticmethod
    def _with(state: Numbers, position: Hashable, value: int) -> Numbers:
        assert isinstance(position, int)
        return (*state[:position], value, *state[position + 1 :])


class Text(Problem[str]):
    """Characters that are removed."""

    def __init__(self) -> None:
        self.passes = [Sweep("cut", lambda s: range(len(s)), Edit("cut", self._without))]

    def size(self, state: str) -> Size:
        return len(state), state

    def serialise(self, state: str) -> bytes:
        return state.encode()

    def restore(self, data: bytes) -> str:
        return data.decode()

    @staticmethod
    def _without(state: str, positions: Sequence[int]) -> str:
        gone = set(positions)
        return "".join(c for i, c in enumerate(state) if i not in gone)


def shrink(
    problem: Problem[Any], start: Any, holds: Callable[[Any], bool], jobs: int = 1, journal: Path | None = None, **options: Any
) -> Result[Any]:
    """The result of reducing `start` while `holds`."""
    transport = FunctionTransport(lambda data: holds(problem.restore(data)), jobs)
    try:
        return minimise(problem, start, transport, Options(journal=journal, **options))
    finally:
        transport.close()


def ddmin(items: Sequence[int], holds: Callable[[Numbers], bool]) -> tuple[Numbers, int]:
    """Zeller's algorithm as in the paper, and how often it asked."""
    state, parts, asked = list(items), 2, 0
    while len(state) >= 2:
        chunks = [state[i * len(state) // parts : (i + 1) * len(state) // parts] for i in range(parts)]
        rests = [[x for other in chunks[:i] + chunks[i + 1 :] for x in other] for i in range(parts)]
        for candidates, then in ((chunks, 2), (rests if parts > 2 else [], max(parts - 1, 2))):
            found = None
            for candidate in candidates:
                asked += 1
                if holds(tuple(candidate)):
                    found = candidate
                    break
            if found is not None:
                state, parts = found, then
                break
        else:
            if parts >= len(state):
                break
            parts = min(2 * parts, len(state))
    return tuple(state), asked
