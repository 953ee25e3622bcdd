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
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dynamo.peer.children import unfollowed
from dynamo.surroundings.parent import parent
from dynamo.surroundings.temporary import OwnFolder
from dynamo.trace.events import Event
from dynamo.trace.processes import merged
from dynamo.trace.stream import read_stream

ROOT = str(Path(__file__).resolve().parent.parent)
# Until the script begins, Ctrl-C ends the child without a traceback of ours.
# The folder it starts in is no place to import from: `python SCRIPT` never looks there, and the script's own takes its place.
_BOOT = """
import sys
started = frozenset(sys.modules)
sys.path[:] = [sys.argv[1], *sys.path[not sys.flags.safe_path :]]
import signal
if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
from tui.runner import main
main(started)
"""
# What a child that does not end gets, and how long to wait before each. Ctrl-C at a terminal reaches it without us; other signals are
# passed on at once.
_AFTER_INTERRUPT = ((1.0, signal.SIGINT), (3.0, signal.SIGTERM), (2.0, signal.SIGKILL))
_AFTER_OTHERS = ((4.0, signal.SIGTERM), (2.0, signal.SIGKILL))


@dataclass(frozen=True)
class Request:
    """What to run.

    `script` is a file, `-` for standard input, or as for Python itself `-m` or `-c` with the module or the code as first of `args`.

    `backend` '' keeps what the script asks for; `internals` keeps our frames in tracebacks.
    `python`: options of the interpreter, as `-Werror`.
    `overlay`: other files that are read in the place of some of the program's, which keep their names.
    """

    script: str
    args: tuple[str, ...] = ()
    engine: str = "dynamo"
    backend: str = ""
    internals: bool = False
    python: tuple[str, ...] = ()
    overlay: dict[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return self.script not in ("-m", "-c", "-")


class Child:
    """A running script. Read `events()` to their end, then ask for `exit_code()`."""

    def __init__(self, request: Request, stdin: int | None = None, stdout: int | None = None, stderr: int | None = None) -> None:
        self._folder = OwnFolder()
        reading, writing = os.pipe()
        command = [sys.executable, *request.python, "-c", _BOOT, ROOT, str(writing), str(self._folder.path), json.dumps(asdict(request))]
        try:
            self.process = subprocess.Popen(
                command, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=(writing,), env={**unfollowed(os.environ), **parent()}
            )
        except BaseException:
            self._folder.close()
            raise
        finally:
            os.close(writing)
        self._pipe = os.fdopen(reading, "rb")
        self._stopping = threading.Event()

    def events(self) -> Iterator[Event | str]:
        """Events as they arrive, until the child has ended; then those of the processes it started. A damaged one is a line of text."""
        yield from read_stream(self._pipe)
        self.process.wait()
        yield from merged(self._folder.path)

    def exit_code(self) -> int:
        """The script's own exit code; 128+S when signal S killed it. Nothing of the run is left behind it."""
        code = self.process.wait()
        self._pipe.close()
        self._folder.close()
        return code if code >= 0 else 128 - code

    def stop(self, number: int = signal.SIGINT) -> None:
        """Have the child end soon, for that signal, without waiting for it."""
        if not self._stopping.is_set():
            self._stopping.set()
            if number != signal.SIGINT:
                self.process.send_signal(number)
            steps = _AFTER_INTERRUPT if number == signal.SIGINT else _AFTER_OTHERS
            threading.Thread(target=self._escalate, args=(steps,), daemon=True).start()

    def kill(self) -> None:
        self.process.kill()

    def _escalate(self, steps: tuple[tuple[float, signal.Signals], ...]) -> None:
        for patience, number in steps:
            try:
                self.process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                self.process.send_signal(number)
