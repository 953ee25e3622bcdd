"""Removing units: chunks from the back, halving from half of everything to one, going on where the last success was (Lithium's order)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minifier.engine.problem import Cursor, Pass, S, Step

_SPARE = 2


class _At(NamedTuple):
    """The units `end - size` to `end`. `spare`: how many second edits of chunks may still fail before they wait for single units."""

    size: int
    end: int
    edit: int
    spare: int
    growing: bool


class Edit(NamedTuple):
    """A way to take units out of a state: `make(state, units)` gives the smaller state, or None where it can't."""

    name: str
    make: Callable[[Any, Sequence[Any]], Any]


class Sweep(Pass[S]):
    """Takes out units, which `units` lists in order; `edits` are tried one after the other on every chunk.

    The first walk halves the size of chunks. Later walks take single units and double the chunk after each success, so that a run of m
    units that have become useless costs about log m candidates.
    """

    def __init__(self, name: str, units: Callable[[S], Sequence[Any]], *edits: Edit) -> None:
        self.name = name
        self._units = units
        self._edits = edits

    def start(self, state: S, again: bool) -> Cursor | None:
        count = len(self._units(state))
        if not count:
            return None
        return _At(1 if again or count == 1 else _power(count - 1), count, 0, _SPARE, again)

    def step(self, state: S, cursor: Cursor) -> Step[S] | None:
        at = _as_at(cursor)
        units = self._units(state)[max(0, at.end - at.size) : at.end]
        edit = self._edits[at.edit]
        smaller = edit.make(state, units) if units else None
        if smaller is None:
            return None
        span = str(units[0]) if len(units) == 1 else f"{units[0]} to {units[-1]} ({len(units)})"
        return Step(f"{edit.name} {span}", smaller, (at.edit, units[0], units[-1], len(units)))

    def next(self, state: S, cursor: Cursor, accepted: bool) -> Cursor | None:
        at = _as_at(cursor)
        count = len(self._units(state))
        if accepted:
            spare = at.spare + _SPARE if at.edit else at.spare
            end = min(max(at.end - at.size, 0), count)
            return self._settle(at._replace(end=end, edit=0, spare=spare, size=2 * at.size if at.growing else at.size), count)
        if at.edit + 1 < len(self._edits) and (at.size == 1 or at.spare > 0):
            return at._replace(edit=at.edit + 1, spare=at.spare - (at.edit > 0))
        spare = at.spare - (at.edit > 0 and at.size > 1)
        if at.growing and at.size > 1:
            return at._replace(edit=0, size=1, spare=spare)
        return self._settle(at._replace(end=max(at.end - at.size, 0), edit=0, spare=spare), count)

    def _settle(self, at: _At, count: int) -> Cursor | None:
        """The same place, or the start of the next level where this one is finished."""
        if not count or (at.end <= 0 and (at.growing or at.size == 1)):
            return None
        if at.growing:
            return at._replace(size=min(at.size, at.end))
        if at.end > 0 and at.size < count:
            return at
        if at.end > 0 and at.size == 1:
            return at
        smaller = min(at.size // 2, _power(count - 1) if count > 1 else 1)
        return at._replace(size=max(smaller, 1), end=count)

    def remaining(self, state: S, cursor: Cursor) -> int:
        at = _as_at(cursor)
        return -(-at.end // at.size) + (0 if at.growing else 2 * max(at.size.bit_length() - 1, 0))


def _as_at(cursor: Cursor) -> _At:
    assert isinstance(cursor, _At)
    return cursor


def _power(n: int) -> int:
    """The largest power of two up to n, which is at least 1."""
    return 1 << (n.bit_length() - 1)
