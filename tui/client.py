"""Where the app gets its events from. The app knows only the protocol, so tests feed it by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from dynamo.trace.events import Event
from tui.child import Child, Request
from tui.exits import SIGNAL_BASE
from tui.runs import load_run_events, signal_name

# How long a script may take to react to being interrupted when its viewer leaves.
_PATIENCE = 0.5


@dataclass(frozen=True)
class Output:
    """Text the script printed."""

    text: str


@dataclass(frozen=True)
class Ended:
    """The run is over. `error` is '' unless something must be said beyond the exit code."""

    code: int
    error: str = ""


@dataclass(frozen=True)
class Problem:
    """A part of the record that could not be read."""

    text: str


Update = Event | Output | Ended | Problem
Take = Callable[[Update], None]


class Client(Protocol):
    """A source of updates. `is_live`: more may come as long as it has not said that the run ended."""

    name: str
    is_live: bool

    def start(self, take: Take) -> None:
        """Begin to deliver. `take` may be called from any thread."""

    def stop(self) -> None:
        """End the delivery, and whatever delivers. Returns when nothing is left running."""


class RecordClient:
    """A stored record: everything at once."""

    is_live = False

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self._events, self._problems = load_run_events(folder)

    def start(self, take: Take) -> None:
        for event in self._events:
            take(event)
        for problem in self._problems:
            take(Problem(problem))

    def stop(self) -> None:
        return None


class ScriptClient:
    """A script running in a child process."""

    is_live = True

    def __init__(self, request: Request) -> None:
        self.name = os.path.basename(request.script)
        self._request = request
        self._child: Child | None = None
        self._threads: list[threading.Thread] = []

    def start(self, take: Take) -> None:
        child = self._child = Child(self._request, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert child.process.stdout is not None
        self._begin(_read_output, child.process.stdout, take)
        self._begin(_read_events, child, take)

    def _begin(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        if self._child is None:
            return
        process = self._child.process
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read_output(pipe: IO[bytes], take: Take) -> None:
    for line in pipe:
        take(Output(line.decode("utf-8", "replace")))


def _read_events(child: Child, take: Take) -> None:
    for item in child.events():
        take(Problem(item) if isinstance(item, str) else item)
    code = child.exit_code()
    take(Ended(code, f"killed by {signal_name(code - SIGNAL_BASE)}" if child.process.returncode < 0 else ""))
