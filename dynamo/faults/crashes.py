"""Acts that end a stage badly, at any point: an error, a signal, a process that never ends or fills the memory."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit

LONGEST = 900.0  # seconds that a process which never ends lives at most
CHUNK = 64 << 20  # bytes that are asked for at a time


class FaultError(RuntimeError):
    """A planted fault."""


def error(value: Any, hit: Hit) -> NoReturn:
    """Raise FaultError."""
    raise FaultError(f"{hit.fault.stage}: {hit.subject.name} is broken")


def internal(value: Any, hit: Hit) -> NoReturn:
    """Fail as a check of the compiler's own does."""
    raise AssertionError(f"{hit.fault.stage}: {hit.subject.name} has no value")


def segfault(value: Any, hit: Hit) -> Any:
    """Read from address 0."""
    return ctypes.string_at(0)


def abort(value: Any, hit: Hit) -> NoReturn:
    """End by SIGABRT, as a failed assertion of C does."""
    os.abort()


def leave(value: Any, hit: Hit) -> NoReturn:
    """End the process with exit code 7, saying nothing."""
    os._exit(7)


def hang(value: Any, hit: Hit) -> Any:
    """Never come back, whatever SIGTERM says."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        time.sleep(1.0)
    return value


def orphans(value: Any, hit: Hit) -> Any:
    """Never come back, with processes below that outlive this one: one of them in a session of its own."""
    for apart in (False, True):
        subprocess.Popen(["sleep", str(int(LONGEST))], start_new_session=apart, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return hang(value, hit)


def memory(value: Any, hit: Hit) -> NoReturn:
    """Ask for memory until there is none, or until `megabytes` of it (1024) are in use."""
    limit = int(hit.options.get("megabytes", "1024")) << 20
    held: list[bytearray] = []
    while CHUNK * len(held) < limit:
        held.append(bytearray(CHUNK))
    raise MemoryError(f"{hit.fault.stage}: {hit.subject.name} needs more than {limit >> 20} MB")
