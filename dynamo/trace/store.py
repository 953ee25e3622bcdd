"""The live store: where `emit` puts events, and who listens.

Always on and cheap: one list append per event. `session()` gives a test or a tool a fresh store for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from dynamo.trace.events import Event, StageTimed
from dynamo.trace.stages import BY_NAME

E = TypeVar("E", bound=Event)


MOST_EVENTS = 5_000


class Store:
    """Events of one run, in order of arrival. Listeners are called with each event, in the emitting thread.

    A store opened inside another passes its events on when someone out there listens or keeps a session, so that a recorder
    around a program also sees the compiles of an `explain` call in it.
    """

    def __init__(self, outer: Store | None = None) -> None:
        self.began = time.perf_counter()
        self.outer = outer
        self.events: list[Event] = []
        self.listeners: list[Callable[[Event], None]] = []

    def now(self) -> float:
        return time.perf_counter() - self.began

    def add(self, event: Event) -> None:
        if event.t < 0:
            event = _at(event, self.now())
        self.events.append(event)
        if self.outer is None and len(self.events) > MOST_EVENTS:
            del self.events[: MOST_EVENTS // 2]  # nobody asked for a record: only a session keeps everything
        for listener in tuple(self.listeners):
            listener(event)
        if self.outer is not None and (self.outer.outer is not None or self.outer.listeners):
            self.outer.add(_shifted(event, self.began - self.outer.began))

    def of(self, kind: type[E]) -> list[E]:
        """Events of one kind, in order."""
        return [e for e in self.events if isinstance(e, kind)]


def _at(event: E, t: float) -> E:
    """The event with a time. `dataclasses.replace` costs 15 times as much, and a large graph emits thousands."""
    copy = object.__new__(type(event))
    copy.__dict__.update(event.__dict__, t=t)
    return copy


def _shifted(event: Event, seconds: float) -> Event:
    if isinstance(event, StageTimed):
        return replace(event, t=event.t + seconds, start=event.start + seconds)
    return replace(event, t=event.t + seconds)


_process_store = Store()


def current() -> Store:
    """The store of the innermost session of this process (sessions are process-wide, compiles may run in any thread)."""
    return _stack[-1]


def of_process() -> Store:
    """The outermost store. Its listeners also hear what happens in sessions."""
    return _process_store


_stack: list[Store] = [_process_store]


def emit(event: Event) -> None:
    _stack[-1].add(event)


def is_watched() -> bool:
    """Whether anybody looks: a session, a recorder, a debug tree. Texts made only to be read are not made otherwise."""
    return len(_stack) > 1 or bool(_process_store.listeners)


@contextmanager
def session() -> Iterator[Store]:
    store = Store(outer=_stack[-1])
    _stack.append(store)
    try:
        yield store
    finally:
        _stack.remove(store)


@contextmanager
def stage(name: str, compile_id: str) -> Iterator[None]:
    """Time one stage of one compile. `name` must be a row of the stage table."""
    if name not in BY_NAME:
        raise KeyError(f"unknown stage {name!r}; declare it in dynamo/trace/stages.py")
    store = current()
    start = store.now()
    try:
        yield
    finally:
        store.add(StageTimed(compile_id, name, start, store.now() - start))
