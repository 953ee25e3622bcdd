"""What is left when a tool was killed, or of processes that left its sessions: another process, which only waits for that, ends it.

It runs this file, which therefore imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "DYNAMO_DEBUG_RUN"  # in the environment of all that a tool starts
TRIES, BETWEEN = 40, 0.05  # looks for what was being started when others were ended
_waiting: list[subprocess.Popen[bytes]] = []


def end_with_this_process() -> None:
    """From now on nothing that this process starts outlives it, however it ends."""
    if _waiting:
        return
    value = f"{os.getpid()}-{time.time_ns()}"
    reading, writing = os.pipe()  # its end, which no other process has, is that of this one
    with open(os.devnull, "w") as nowhere:
        command = [sys.executable, "-I", "-S", __file__, value]
        _waiting.append(subprocess.Popen(command, stdin=reading, stdout=nowhere, stderr=nowhere, env={}, start_new_session=True))
    os.close(reading)
    os.set_inheritable(writing, False)
    os.environ[MARK] = value


def waiting() -> list[int]:
    """The process that waits for the end of this one."""
    return [process.pid for process in _waiting]


def marked(value: str) -> list[int]:
    """Processes of a tool, by what its environment gave them."""
    wanted = f"{MARK}={value}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def main() -> None:
    while os.read(0, 1):
        pass
    for _ in range(TRIES):
        found = marked(sys.argv[1])
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return
        time.sleep(BETWEEN)


if __name__ == "__main__":
    main()
