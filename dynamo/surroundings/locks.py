"""Forks while other threads compile: locks that work in the child, and no child without modules that were being imported."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")

PATIENCE = 5.0  # seconds that a fork waits for imports of other threads

_forks = 0
_busy: list[int] = []  # threads that compile


class Lock:
    """Reentrant. A child begins with a fresh one, unless the thread that was forked holds it."""

    __slots__ = ("_forks", "_lock")

    def __init__(self) -> None:
        self._lock, self._forks = threading.RLock(), _forks

    def __enter__(self) -> None:
        if self._forks != _forks:
            if not self._lock._is_owned():  # type: ignore[attr-defined]  # as threading.Condition asks
                self._lock = threading.RLock()
            self._forks = _forks
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


class cached_property(Generic[T]):
    """As that of functools, without the lock that it has on CPython 3.11."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: Any, cls: type | None = None) -> T:
        value = obj.__dict__[self.name] = self.compute(obj)
        return value


@contextmanager
def busy() -> Iterator[None]:
    """This thread compiles, and may import what that takes."""
    me = threading.get_ident()
    _busy.append(me)
    try:
        yield
    finally:
        _busy.remove(me)


def _before_fork() -> None:
    """A module that another thread is importing is locked for ever in the child."""
    me = threading.get_ident()
    end = time.monotonic() + PATIENCE
    while any(t != me for t in _busy) and _imports_of_others(me) and time.monotonic() < end:
        time.sleep(0.001)


def _imports_of_others(me: int) -> bool:
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    return any(getattr(ref(), "owner", None) not in (None, me) for ref in [*locks.values()])


def _after_fork() -> None:
    global _forks
    _forks += 1
    _busy[:] = [t for t in _busy if t == threading.get_ident()]


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
