"""What is made smaller: states, their order, and the single steps a pass proposes.

A state is an immutable value. Everything here is a pure function of it, so the same start and the same answers give the same end.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

S = TypeVar("S")
Size = tuple[Any, ...]
Cursor = Hashable


class Problem(ABC, Generic[S]):
    """A kind of state, with the passes that make it smaller."""

    passes: Sequence[Pass[S]]

    @abstractmethod
    def size(self, state: S) -> Size:
        """A tuple that orders states: what matters most stands first. Only states with a smaller tuple are ever tried."""

    @abstractmethod
    def serialise(self, state: S) -> bytes:
        """What the oracle gets. Equal states give equal bytes, in every process."""

    @abstractmethod
    def restore(self, data: bytes) -> S:
        """The inverse of `serialise`. Raises ValueError for anything else."""

    def canonical(self, state: S) -> bytes:
        """Everything of a state that can change the oracle's answer, and nothing else: states with equal bytes are asked once."""
        return self.serialise(state)

    def remainder(self, start: S, end: S) -> S | None:
        """The start without what the end consists of, to be asked whether it fails too, in another way. None: there is no such state."""
        return None


@dataclass(frozen=True)
class Step(Generic[S]):
    """One edit on offer. `edit` names it the same way whatever else was removed before: a guess of its answer is made from the last one."""

    label: str
    state: S
    edit: Hashable


class Pass(ABC, Generic[S]):
    """A deterministic walk over the edits of one kind.

    A cursor is an immutable value that says where the walk is. Nothing is kept in the pass itself, so a walk can be followed ahead of
    its answers. After a success the walk goes on where it stands; it never starts over.
    """

    name: str

    @abstractmethod
    def start(self, state: S, again: bool) -> Cursor | None:
        """The first place, or None where there is nothing to try.

        The first walk (`again` is False) may skip and leap. A walk with `again` that meets no success visits every single step on offer:
        this is what makes its end a certificate.
        """

    @abstractmethod
    def step(self, state: S, cursor: Cursor) -> Step[S] | None:
        """The edit at this place, or None where it can't be made."""

    @abstractmethod
    def next(self, state: S, cursor: Cursor, accepted: bool) -> Cursor | None:
        """The place after `cursor`, or None at the end. `state` is the state afterwards: the edited one if `accepted`."""

    def remaining(self, state: S, cursor: Cursor) -> int:
        """About how many edits are left from here on, for the estimate of time. 0: not known."""
        return 0


@dataclass(frozen=True)
class Candidate:
    """What goes to an oracle: `key` stands for it in the journal, `payload` is what it is. See `Transport.looks` for `is_patient`."""

    key: str
    payload: bytes
    is_patient: bool = False


def candidate_of(problem: Problem[S], state: S, oracle: str) -> Candidate:
    """The candidate of a state for the oracle of that name; two oracles never share an answer."""
    digest = hashlib.sha256(f"{oracle}\n".encode())
    digest.update(problem.canonical(state))
    return Candidate(digest.hexdigest(), problem.serialise(state))
