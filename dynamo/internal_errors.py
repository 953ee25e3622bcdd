"""Failures of the compiler's own: counted, recorded and warned about, never hidden behind the fallback that kept the program running."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable

from dynamo.surroundings.locks import Lock
from dynamo.trace import emit, events

# Called with a failure that the program is about to get, which it may catch: without `suppress_errors` nothing else tells of one.
before_raise: Callable[[BaseException], object] | None = None
_lock = Lock()
_seen: Counter[tuple[str, str, str]] = Counter()

_WHAT = {
    "DD090": "compiling {place} failed, it runs in eager: {error}. set dynamo.config.suppress_errors = False to raise",
    "DD091": "the backend failed on a graph of {place}, which runs in eager: {error}",
    "DD095": "the compiled graph of {place} failed where the program does not, which ran in eager: {error}",
    "DD096": "{place} changed global state that the program left alone: {error}. what is known how to was put back",
}


def report(error_id: str, error: BaseException, place: str, compile_id: str, file: str, line: int, text: str = "") -> None:
    """Count a failure, put it into the record, and warn the user at a line of theirs."""
    kind = type(error).__name__
    message = text or _WHAT[error_id].format(place=place, error=f"{kind}: {error}")
    raised_at = raising_place(error)
    with _lock:
        _seen[error_id, kind, raised_at] += 1
    emit(events.InternalError(error_id, kind, str(error), raised_at, place, compile_id))
    warn(f"{message} [{error_id}]", file, line)


def warn(message: str, file: str, line: int) -> None:
    """A warning of the compiler's own: a filter of the program's that makes errors of warnings makes none of it amid the program."""
    try:
        warnings.warn_explicit(message, UserWarning, file, line)
    except UserWarning:
        sys.stderr.write(warnings.formatwarning(message, UserWarning, file, line))


def raising(error: BaseException) -> None:
    """The program gets a failure of the compiler's own."""
    if before_raise is not None:
        before_raise(error)


def raising_place(error: BaseException) -> str:
    """`file:line function` of the innermost Python frame that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno} {frames[-1].name}" if frames else ""


def internal_errors() -> dict[tuple[str, str, str], int]:
    """How often each failure happened in this process since `forget`: (id, type of exception, where it was raised) -> count."""
    with _lock:
        return dict(_seen)


def forget() -> None:
    """Start counting anew."""
    with _lock:
        _seen.clear()
