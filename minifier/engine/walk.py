"""The way of a reduction as a pure function of its answers: passes in order, round after round, until a round changes nothing.

Because it is pure it can be followed ahead of the answers. That is how several jobs are kept busy: the candidates that come next if the
guesses hold are run early, and a run whose guess did not hold is given up. The end is the same for any number of jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

from minifier.engine.problem import Candidate, Cursor, Pass, Problem, S, Step, candidate_of


@dataclass(frozen=True)
class Place(Generic[S]):
    """A point of the way: which pass of which round stands where, over which state."""

    state: S
    round: int
    number: int
    cursor: Cursor
    changed: bool  # something was accepted in this round


class Walk(Generic[S]):
    """All ways from one start."""

    def __init__(self, problem: Problem[S], oracle: str) -> None:
        self.problem = problem
        self.oracle = oracle

    def begin(self, state: S) -> Node[S] | None:
        """The first candidate, or None where no pass has anything to offer."""
        return self._settle(self._enter(state, 0, 0, False))

    def pass_at(self, place: Place[S]) -> Pass[S]:
        return self.problem.passes[place.number]

    def is_last(self, place: Place[S]) -> bool:
        """Whether the round of this place can be the one that certifies the end: nothing was accepted in it yet."""
        return place.round > 0 and not place.changed

    def after(self, place: Place[S], accepted: S | None) -> Place[S] | None:
        """The next place, whether or not anything can be tried there."""
        state = place.state if accepted is None else accepted
        changed = place.changed or accepted is not None
        cursor = self.pass_at(place).next(state, place.cursor, accepted is not None)
        if cursor is None:
            return self._enter(state, place.round, place.number + 1, changed)
        return replace(place, state=state, cursor=cursor, changed=changed)

    def _enter(self, state: S, round: int, number: int, changed: bool) -> Place[S] | None:
        """The first place of a pass, or of the one after it that has any."""
        passes = self.problem.passes
        while True:
            if number == len(passes):
                if round > 0 and not changed:
                    return None
                round, number, changed = round + 1, 0, False
            if number == len(passes):
                return None
            cursor = passes[number].start(state, round > 0)
            if cursor is not None:
                return Place(state, round, number, cursor, changed)
            number += 1

    def _settle(self, place: Place[S] | None) -> Node[S] | None:
        """The first place from here on that offers a smaller state."""
        while place is not None:
            step = self.pass_at(place).step(place.state, place.cursor)
            if step is not None and self.problem.size(step.state) < self.problem.size(place.state):
                return Node(self, place, step, candidate_of(self.problem, step.state, self.oracle))
            place = self.after(place, None)
        return None

    def settle_after(self, place: Place[S], accepted: S | None) -> Node[S] | None:
        return self._settle(self.after(place, accepted))


class Node(Generic[S]):
    """A candidate on the way, and the two ways on from it."""

    def __init__(self, walk: Walk[S], place: Place[S], step: Step[S], candidate: Candidate) -> None:
        self.place = place
        self.step = step
        self.candidate = candidate
        self._walk = walk
        self._after: dict[bool, Node[S] | None] = {}

    @property
    def guess_key(self) -> tuple[object, ...]:
        """Names the edit, whatever state it is made on."""
        return self.place.number, self.step.edit

    def after(self, accepted: bool) -> Node[S] | None:
        """The next candidate if this one is accepted or not; None: that was the last."""
        if accepted not in self._after:
            self._after[accepted] = self._walk.settle_after(self.place, self.step.state if accepted else None)
        return self._after[accepted]

    def remaining(self) -> int:
        return self._walk.pass_at(self.place).remaining(self.place.state, self.place.cursor)
