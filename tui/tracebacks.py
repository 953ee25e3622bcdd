"""Tracebacks as the script's author wants them: their frames, not ours."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

from dynamo.errors import GraphBreakError, RecompileError, RecompileLimitError
from tui.console import say

_ROOT = Path(__file__).resolve().parent.parent
_OURS = tuple(str(_ROOT / package) + "/" for package in ("dynamo", "inductor", "minifier", "tui"))
# Generated functions carry names in angle brackets that start with ours.
_GENERATED = ("<dynamo", "<inductor", "<resume", "<entry", "<native")
# Files that are no part of a program: installed packages and the standard library.
_INSTALLED = ("<frozen", *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "purelib", "platlib")))
_SHOWN = 4  # frames of ours in one line
# The way from one of our modules to another when it is imported on first use, and to the packages above a module that is run.
_IMPORTING = ("<frozen importlib", "<frozen runpy", importlib.__file__, runpy.__file__)


def is_ours(filename: str) -> bool:
    return filename.startswith(_OURS) or filename.startswith(_GENERATED)


def show(error: BaseException, internals: bool) -> SystemExit | None:
    """Print an uncaught exception as Python does: through the script's own `sys.excepthook`. Returns what that left with, if it did."""
    ours = raised_by_us(error)
    if not internals:
        _strip(error, set())
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    second = _hooked(error)
    if isinstance(second, SystemExit):
        return second
    if second is not None:
        _strip(second, set())
        print("Error in sys.excepthook:", file=sys.stderr)
        _display(second)
        print("\nOriginal exception was:", file=sys.stderr)
        _display(error)
    if ours and not internals:
        say("raised inside dynamo-debug; --internals shows where")
    return None


def _hooked(error: BaseException) -> BaseException | None:
    """What the hook raises."""
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        print("sys.excepthook is missing", file=sys.stderr)
        hook = sys.__excepthook__
    try:
        hook(type(error), error, error.__traceback__)
    except BaseException as e:  # noqa: BLE001  # of the script's own function
        return e
    return None


def _display(error: BaseException) -> None:
    sys.__excepthook__(type(error), error, error.__traceback__)


def one_line(error: BaseException) -> str:
    """Its type and the first line of its text; no notes."""
    lines = traceback.format_exception_only(error)
    return next((line for line in lines if not line.startswith("  ")), lines[-1]).strip().partition("\n")[0]


def way_through_ours(error: BaseException) -> str:
    """An error of our own as one line: what it says, and where, the innermost frames of ours first."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if is_ours(f.filename)][-_SHOWN:]
    places = (f"{os.path.relpath(f.filename, _ROOT)}:{f.lineno} {f.name}" for f in reversed(ours))
    return f"{one_line(error)} (at {', from '.join(places)})"


def place(error: BaseException) -> tuple[str, int]:
    """File and line of the innermost frame of the program, or where it has none, of the innermost that is not ours; ('', 0) for neither."""
    frames = []
    tb = error.__traceback__
    while tb is not None:
        if not is_ours(tb.tb_frame.f_code.co_filename):
            frames.append((tb.tb_frame.f_code.co_filename, tb.tb_lineno))
        tb = tb.tb_next
    return next((frame for frame in reversed(frames) if not frame[0].startswith(_INSTALLED)), frames[-1] if frames else ("", 0))


def _strip(error: BaseException | None, seen: set[int]) -> None:
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    error.__traceback__ = without_ours(error.__traceback__)
    _strip(error.__cause__, seen)
    _strip(error.__context__, seen)
    for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        _strip(part, seen)


def raised_by_us(error: BaseException) -> bool:
    """Whether the innermost frame is ours: misuse of the API, or an error of ours. Our frames must still be there.

    A break or a recompile that the program asked to be told of is neither.
    """
    if isinstance(error, GraphBreakError | RecompileLimitError | RecompileError):
        return False
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and is_ours(tb.tb_frame.f_code.co_filename)


def _theirs(links: list[TracebackType]) -> list[TracebackType]:
    """The frames that are not ours, nor the import machinery that ours went through."""
    kept, after_ours = [], False
    for x in links:
        filename = x.tb_frame.f_code.co_filename
        if is_ours(filename):
            after_ours = True
        elif not (after_ours and filename.startswith(_IMPORTING)):
            after_ours = False
            kept.append(x)
    return kept


def without_ours(tb: TracebackType | None) -> TracebackType | None:
    """The same chain less our frames. All of them ours: left as it is, for then it is our error to show."""
    links = []
    link = tb
    while link is not None:
        links.append(link)
        link = link.tb_next
    theirs = _theirs(links)
    rebuilt: TracebackType | None = None
    for x in reversed(theirs or links):
        rebuilt = TracebackType(rebuilt, x.tb_frame, x.tb_lasti, x.tb_lineno)
    return rebuilt
