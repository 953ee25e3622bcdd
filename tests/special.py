"""What may stand where a file is expected and never ends, or waits for ever; and bounds for tests that hand one over."""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_MOST = 1 << 30  # bytes that a test may use beyond what the process has
_LONGEST = 30.0  # seconds


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # such an address has at most 108 bytes


# What says so -> how to make it.
SPECIAL: dict[str, Callable[[Path], None]] = {
    "it is a device, not a file": lambda path: path.symlink_to("/dev/zero"),
    "it is a pipe, not a file": lambda path: os.mkfifo(path),
    "it is a socket, not a file": _socket,
}


def bound_memory() -> None:
    """From now on this process gets MemoryError where it takes much more than it has."""
    has = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (has + _MOST, resource.getrlimit(resource.RLIMIT_AS)[1]))


@contextmanager
def bounded() -> Iterator[None]:
    """Whatever reads without end in here, or waits, is an error soon."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it waits for ever")

    limits, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, late)
    bound_memory()
    signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, limits)
