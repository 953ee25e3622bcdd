"""How a trace stops: exceptions of the tracer itself, and exceptions of the traced program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo.breaks import REASONS

if TYPE_CHECKING:
    from dynamo import _C
    from dynamo.source import Source
    from dynamo.symbolic.values.kinds import Value


# The frame is stepped through from there on: what it returns, and what it is followed by, must be the program's own.
ENTERS_DEBUGGER = "DD033"


class BreakError(Exception):
    """The current instruction can't be captured. `id` is a row of dynamo/breaks.py, `what` the thing at hand."""

    def __init__(self, id: str, what: str, hint: str = "", cause: BaseException | None = None) -> None:
        super().__init__(what)
        self.reason = REASONS[id]
        self.id = id
        self.what = what
        self.hint = hint or self.reason.hint
        self.cause = cause
        self.consequence = False  # follows from an earlier break (a loop over an iterator that lives across it)
        self.because: tuple[Source, _C.GuardKind, object] | None = None  # a guard: without it there is no reason to break any more
        self.stack: tuple[tuple[str, int, str], ...] = ()  # user frames, outermost first: file, line, function
        self.span: tuple[str, int, int, int, int] = ("", 0, 0, 0, 0)  # file, line, col, end line, end col


class CannotRebuild(BreakError):
    """A value alive at a break can't be made again in generated code; `born` is the root step that made it."""

    def __init__(self, what: str, born: int) -> None:
        super().__init__("DD012", what)
        self.born = born


class CannotAssume(Exception):
    """A graph that checks which side of a branch is taken can't be started over when it is the other side."""


class Raised(Exception):
    """The traced program raises. `value` is the exception instance as a value."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


class NotConstant(Exception):
    """A value has no Python object that is known while tracing."""


class RestartTrace(Exception):
    """Facts learned while tracing make a different start better (for example: treat a source as an input)."""
