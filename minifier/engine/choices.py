"""Replacing a part by a simpler one: per site a short list, simplest first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from minifier.engine.problem import Cursor, Pass, S, Step


class _At(NamedTuple):
    site: int
    option: int


class Choices(Pass[S]):
    """`sites` names what may be replaced, in order; `options` gives the states with simpler replacements, simplest first.

    Options may be no smaller than the state; those are passed over. A single step is one option at one site.
    """

    def __init__(
        self,
        name: str,
        sites: Callable[[S], Sequence[Hashable]],
        options: Callable[[S, Hashable], Sequence[tuple[str, S]]],
    ) -> None:
        self.name = name
        self._sites, self._options = sites, options

    def start(self, state: S, again: bool) -> Cursor | None:
        return _At(0, 0) if self._sites(state) else None

    def step(self, state: S, cursor: Cursor) -> Step[S] | None:
        at = _as_at(cursor)
        site = self._sites(state)[at.site]
        options = self._options(state, site)
        if at.option >= len(options):
            return None
        label, smaller = options[at.option]
        return Step(f"{site}: {label}", smaller, (site, label))

    def next(self, state: S, cursor: Cursor, accepted: bool) -> Cursor | None:
        at = _as_at(cursor)
        sites = self._sites(state)
        if at.site >= len(sites):
            return None
        if not accepted and at.option + 1 < len(self._options(state, sites[at.site])):
            return _At(at.site, at.option + 1)
        return _At(at.site + 1, 0) if at.site + 1 < len(sites) else None

    def remaining(self, state: S, cursor: Cursor) -> int:
        return len(self._sites(state)) - _as_at(cursor).site


def _as_at(cursor: Cursor) -> _At:
    assert isinstance(cursor, _At)
    return cursor
