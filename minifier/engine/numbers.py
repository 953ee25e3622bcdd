"""Lowering whole numbers: to the least, else by bisection to the smallest that still fails."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from minifier.engine.problem import Cursor, Pass, S, Step


class _At(NamedTuple):
    """At site `site`. `low` was rejected (None: the least was not tried yet). `leap`: bisect, else try the next lower number only."""

    site: int
    low: int | None
    again: bool
    leap: bool


class Lower(Pass[S]):
    """Lowers one number of a state after the other.

    `sites` names them in order; `value` and `least` tell a number and the lowest it may become; `put` gives the state with another value,
    or None where that can't be. A bug that needs at least N ends at N. Single steps are: the least, and one less.
    """

    def __init__(
        self,
        name: str,
        sites: Callable[[S], Sequence[Hashable]],
        value: Callable[[S, Hashable], int],
        least: Callable[[S, Hashable], int],
        put: Callable[[S, Hashable, int], S | None],
    ) -> None:
        self.name = name
        self._sites, self._value, self._least, self._put = sites, value, least, put

    def start(self, state: S, again: bool) -> Cursor | None:
        return self._at(state, 0, again)

    def _at(self, state: S, site: int, again: bool) -> Cursor | None:
        """The first site from `site` on whose number can become lower."""
        sites = self._sites(state)
        while site < len(sites):
            if self._value(state, sites[site]) > self._least(state, sites[site]):
                return _At(site, None, again, not again)
            site += 1
        return None

    def _probe(self, state: S, at: _At) -> tuple[Hashable, int]:
        name = self._sites(state)[at.site]
        value = self._value(state, name)
        if at.low is None:
            return name, self._least(state, name)
        return name, (at.low + value) // 2 if at.leap else value - 1

    def step(self, state: S, cursor: Cursor) -> Step[S] | None:
        at = _as_at(cursor)
        name, wanted = self._probe(state, at)
        smaller = self._put(state, name, wanted)
        return None if smaller is None else Step(f"{name} = {wanted}", smaller, (name, wanted))

    def next(self, state: S, cursor: Cursor, accepted: bool) -> Cursor | None:
        at = _as_at(cursor)
        sites = self._sites(state)
        if at.site >= len(sites):
            return None
        name = sites[at.site]
        value, least = self._value(state, name), self._least(state, name)
        if accepted:
            low, leap, is_open = at.low, True, at.low is not None and value - at.low > 1
        elif at.low is None:
            low, leap, is_open = least, at.leap, value - least > 1
        else:
            low, leap = (at.low + value) // 2, at.leap
            is_open = leap and value - low > 1
        return at._replace(low=low, leap=leap) if is_open else self._at(state, at.site + 1, at.again)

    def remaining(self, state: S, cursor: Cursor) -> int:
        return len(self._sites(state)) - _as_at(cursor).site


def _as_at(cursor: Cursor) -> _At:
    assert isinstance(cursor, _At)
    return cursor
