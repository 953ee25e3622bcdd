"""Recursion over expressions, which may be deeper than Python's own stack."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
Task = Generator["Task[Any]", Any, T]  # yields what it waits for, is sent the result of that, and returns its own


def run(task: Task[T]) -> T:
    """The result of a task. What it waits for runs on a list, where calls would each take a frame."""
    waiting: list[Task[Any]] = [task]
    given: Any = None
    while waiting:
        try:
            asked = waiting[-1].send(given)
        except StopIteration as done:
            waiting.pop()
            given = done.value
        else:
            waiting.append(asked)
            given = None
    return given


def each(tasks: Iterable[Task[T]]) -> Task[list[T]]:
    """The results of some tasks, in order."""
    results: list[T] = []
    for task in tasks:
        results.append((yield task))
    return results
