"""Errors of the program's signal handlers, which Python runs between any two instructions, ours too."""

from __future__ import annotations

import inspect
import itertools
from types import FrameType, TracebackType


def let_through(error: BaseException) -> None:
    """Raise what a signal handler of the program raised, if this is it or was made of it; otherwise do nothing."""
    found = of_handler(error)
    if found is None:
        return
    context = found.__context__
    try:
        raise found
    finally:
        found.__context__ = context


def of_handler(error: BaseException) -> BaseException | None:
    """The error that a signal handler of the program raised, if it is this one or what this one was made of; otherwise None.

    It belongs to the program at the place that was interrupted: it is no answer to what was asked there, and asked again, nothing would
    raise it. What the program itself had caught before is not what this one was made of.
    """
    passed = {link.tb_frame for link in _links(error.__traceback__)}
    found: BaseException | None = error
    while found is not None and found.__traceback__ is not None and found.__traceback__.tb_frame in passed:
        if _passes_handler(found.__traceback__):
            return found
        found = found.__cause__ or found.__context__
    return None


def _links(tb: TracebackType | None) -> list[TracebackType]:
    found = []
    while tb is not None:
        found.append(tb)
        tb = tb.tb_next
    return found


def _passes_handler(tb: TracebackType) -> bool:
    """A handler is called with the frame that it interrupts, which is also the one that its own is called from."""
    frames = [link.tb_frame for link in _links(tb)]
    return any(_was_given(frame, below) for below, frame in itertools.pairwise(frames))


def _was_given(frame: FrameType, below: FrameType) -> bool:
    code = frame.f_code
    if code.co_argcount < 2 and not code.co_flags & inspect.CO_VARARGS:
        return False
    given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 1]]
    return any(value is below for value in given) or any(value is below for part in given if type(part) is tuple for value in part)
