"""Running a script in a child process and hearing what its compiles do.

The child is this interpreter again. It sends events as JSON lines over a pipe of their own, so the script keeps stdin, stdout
and stderr for itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from dynamo.trace.events import Event
from dynamo.trace.stream import read_stream

ROOT = str(Path(__file__).resolve().parent.parent)
# Until the script begins, Ctrl-C ends the child without a traceback of ours.
_BOOT = """
import signal, sys
if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
sys.path.insert(0, sys.argv[1])
from tui.runner import main
main()
"""
# What a child that does not end gets, and how long to wait before each.
_ESCALATION = ((1.0, signal.SIGINT), (3.0, signal.SIGTERM), (2.0, signal.SIGKILL))


@dataclass(frozen=True)
class Request:
    """What to run. `backend` '' keeps what the script asks for; `internals` keeps our frames in tracebacks."""

    script: str
    args: tuple[str, ...] = ()
    engine: str = "dynamo"
    backend: str = ""
    internals: bool = False


class Child:
    """A running script. Read `events()` to their end, then ask for `exit_code()`."""

    def __init__(self, request: Request, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None) -> None:
        reading, writing = os.pipe()
        command = [sys.executable, "-c", _BOOT, ROOT, str(writing), json.dumps(asdict(request))]
        try:
            self.process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=(writing,))
        finally:
            os.close(writing)
        self._pipe = os.fdopen(reading, "rb")
        self._stopping = threading.Event()

    def events(self) -> Iterator[Event | str]:
        """Events as they arrive, until the child has ended. A damaged one comes as a line of text."""
        return read_stream(self._pipe)

    def exit_code(self) -> int:
        """The script's own exit code; 128+S when signal S killed it."""
        code = self.process.wait()
        self._pipe.close()
        return code if code >= 0 else 128 - code

    def stop(self) -> None:
        """Have the child end soon, without waiting for it. A Ctrl-C at a terminal has reached it already."""
        if not self._stopping.is_set():
            self._stopping.set()
            threading.Thread(target=self._escalate, daemon=True).start()

    def kill(self) -> None:
        self.process.kill()

    def _escalate(self) -> None:
        for patience, number in _ESCALATION:
            try:
                self.process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                self.process.send_signal(number)
