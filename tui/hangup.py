"""Leaving when the terminal has gone: a closed window, a dropped connection.

A hangup arrives as SIGHUP where that is not ignored, and always as an end of the terminal's input. Neither is an event that Textual
passes on: its reader would go on asking a terminal that answers at once with nothing.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from tui.exits import SIGNAL_BASE

HUNG_UP = SIGNAL_BASE + signal.SIGHUP
_ASK_EVERY = 0.5


def leave_at_hangup(stop: Callable[[], None]) -> None:
    """From now on end this process when its terminal goes. `stop` ends what it has started."""
    leaving = threading.Lock()

    def leave() -> None:
        if leaving.acquire(blocking=False):
            try:
                stop()
            finally:
                os._exit(HUNG_UP)  # there is no screen to restore, and whoever writes to it meanwhile would block or fail

    def on_signal(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=leave).start()

    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, on_signal)
    threading.Thread(target=_watch, args=(sys.stdin.fileno(), leave), daemon=True).start()


def _watch(terminal: int, leave: Callable[[], None]) -> None:
    """Input that is only waiting ends no poll: asking for no event but the hangup costs nothing while a user is there."""
    poll = select.poll()
    poll.register(terminal, 0)
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(_ASK_EVERY * 1000)):
        continue
    leave()
