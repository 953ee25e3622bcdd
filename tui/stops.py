"""Signals that end a command: what it has started ends with it, as after Ctrl-C, and the exit code is the signal's own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tui.exits import SIGNAL_BASE

ENDED_BY = {int(signal.SIGTERM): "terminated", int(signal.SIGHUP): "hung up"}


class Stopped(KeyboardInterrupt):
    """One of `ENDED_BY` has come. Where Ctrl-C gives the best that was found so far, so does this."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = SIGNAL_BASE + number
        self.what = ENDED_BY[number]


@contextmanager
def stops_raised() -> Iterator[None]:
    """Raise `Stopped` in this process's main thread for signals that would end it without a word, and only for those."""

    def raise_it(number: int, frame: FrameType | None) -> None:
        raise Stopped(number)

    before = {n: signal.signal(n, raise_it) for n in ENDED_BY if signal.getsignal(n) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
