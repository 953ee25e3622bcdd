"""Whether a process stands still: its stack, which it tells on request, and what runs below it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from minifier.isolation.linux import cpu_seconds, own_cpu_seconds

ASK = signal.SIGRTMAX - 2  # has no use of its own, as SIGUSR1 may have in the program that is asked
KNOWN, UNKNOWN = (0.3, 2), (1.0, 6)  # seconds between looks, and how many must find the same
BUSY = 0.1  # seconds of CPU below a process between two looks, with which it waits for work that is done
AGAIN = 1.5  # times the time it ran when it was found elsewhere, the next look is made

VARIABLE = "DYNAMO_DEBUG_STACKS"  # the descriptor that a script which is run by itself writes its stack to

_OURS = f'File "{Path(__file__).parents[1]}{os.sep}'
_FRAME = re.compile(r'File "([^"]*)", line \d+ in (.+)')


def tell_when_asked(fd: int) -> None:
    """From now on, this process writes its stack to `fd` whenever `ask` wants it."""
    faulthandler.register(ASK, fd, all_threads=False)


def tell_parent_when_asked() -> None:
    """The same, where the parent has left a descriptor for it, which nothing that this process starts will have."""
    fd = os.environ.pop(VARIABLE, "")
    if fd:
        os.set_inheritable(int(fd), False)
        tell_when_asked(int(fd))


def ask(pid: int) -> bool:
    """Have a process write its stack; False where it would not know what is meant, and end."""
    try:
        caught = re.search(r"^SigCgt:\s*([0-9a-f]+)", Path("/proc", str(pid), "status").read_text(), re.MULTILINE)
        if caught is None or not int(caught[1], 16) >> (ASK - 1) & 1:
            return False
        os.kill(pid, ASK)
    except OSError:
        return False
    return True


def innermost(dump: str) -> str:
    """The function that a stack ends in, as `file:function`; '' where there is none."""
    frame = _FRAME.search(dump)
    return f"{Path(frame[1]).name}:{frame[2].strip()}" if frame else ""


def readable(dump: str) -> str:
    """A stack without what the tool itself has below the program, innermost function first, and what was said before it."""
    lines = dump.splitlines()
    frames = [at for at, line in enumerate(lines) if _FRAME.search(line)]
    ours = next((at for at in frames if _OURS in lines[at]), frames[-1] + 1 if frames else len(lines))
    return "\n".join(line for line in lines[:ours] if line.strip())


@dataclass
class Standing:
    """Looks at a process from time to time, once it has run for `begins` seconds. It stands still when several looks in a row find it in
    the same function and nothing at work below it. A `frame` that is known as the place where it never ends needs fewer looks.

    `dump` is asked for the stack of the process, as text.
    """

    pid: int
    begins: float
    dump: Callable[[], str]
    frame: str = ""
    due: float = field(init=False)
    _found: str = ""
    _count: int = 0
    _worked: float = 0.0

    def __post_init__(self) -> None:
        self.due = self.begins

    def is_still(self, ran: float) -> bool:
        """Look, if it is time after so many seconds; whether that settles it."""
        if ran < self.due:
            return False
        every, times = KNOWN if self.frame else UNKNOWN
        found, worked = innermost(self.dump()), self._below()
        if found and found == self._found and worked - self._worked < BUSY:
            self._count += 1
        else:
            self._count = 1
        self._found, self._worked = found, worked
        if not found or (self.frame and found != self.frame):
            self.due, self._found = max(AGAIN * ran, ran + every), ""
            return False
        self.due = ran + every
        return self._count >= times

    def _below(self) -> float:
        with contextlib.suppress(OSError):
            return cpu_seconds(self.pid) - own_cpu_seconds(self.pid)
        return 0.0
