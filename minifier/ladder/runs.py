"""Running a whole script: recorded, or without any compiler."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from dynamo.peer.children import unfollowed
from dynamo.surroundings.parent import parent
from dynamo.surroundings.temporary import own_folder
from minifier.children import ENDS, Child, children_of
from minifier.isolation.keeper import GRACE
from minifier.isolation.linux import below, end, seconds_queued
from minifier.isolation.standing import VARIABLE, Standing, ask
from minifier.programs import standard_input
from minifier.record import END
from minifier.recordings import Recorded, recorded
from minifier.stands import OFF
from minifier.verify import environment

SOON = 12.0  # seconds after which somebody asks how long a run may take
LOOK = 0.2  # seconds of waiting for a core that are worth another look
LOADING = 60.0  # seconds that loading torch may take
KEPT = 4000  # characters of what a script says


class ScriptFailed(RuntimeError):
    """The script does not run in eager either; the message is the end of what it said."""


@dataclass(frozen=True)
class Ended:
    """How a run of the script ended, after how long. `internal` are failures of the compiler's own that it went on after,
    in one of its processes, with `is_elsewhere` in none but others; `children` are programs that it started and that failed."""

    code: int
    said: str = ""
    error: str = ""
    internal: tuple[str, ...] = ()
    timed_out: bool = False
    seconds: float = 0.0
    children: tuple[Child, ...] = ()
    is_elsewhere: bool = False

    @property
    def is_well(self) -> bool:
        return self.code == 0 and not self.internal


@dataclass(frozen=True)
class Limit:
    """How many seconds a run may take, and after how many it may be ended that stands still."""

    seconds: float
    still: float


Limits = Callable[[], Limit]  # asked of a run that has taken `SOON` seconds


def recorded_run(
    folder: Path, script: str, args: tuple[str, ...], engine: str, after: str, backend: str, seconds: float, limit: Limits | None = None
) -> tuple[Ended, list[Recorded]]:
    """Run the script with its graphs in eager; how that ended and the graphs. Raises GraphError."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.json"), folder / END):
        old.unlink(missing_ok=True)
    command = [sys.executable, "-m", "minifier.record", str(folder.absolute()), engine, after, backend, script, *args]
    ended = _run(command, seconds, limit=limit)
    with contextlib.suppress(OSError, ValueError):
        told = json.loads((folder / END).read_text())
        own = tuple(told["internal_errors"])
        is_elsewhere = bool(ended.internal) and not own
        ended = replace(ended, error=ended.error or told["error"], internal=(*own, *ended.internal), is_elsewhere=is_elsewhere)
    return ended, recorded(folder)


def run_in_eager(script: str, args: tuple[str, ...], engine: str, seconds: float) -> Ended:
    """Run the script with every compiler switched off."""
    return _run(_whole(script, args, engine, ""), seconds, OFF)


def seconds_of_start() -> float:
    """How long a new interpreter takes to load torch."""
    return _run([sys.executable, "-c", "import torch"], LOADING).seconds


def run_compiled(script: str, args: tuple[str, ...], engine: str, backend: str, seconds: float, limit: Limits | None = None) -> Ended:
    """Run the script as it is, with failures of the compiler's own raised."""
    return _run(_whole(script, args, engine, backend), seconds, limit=limit)


def _whole(script: str, args: tuple[str, ...], engine: str, backend: str) -> list[str]:
    return [sys.executable, "-m", "minifier.whole", engine, backend, script, *args]


def _run(command: list[str], seconds: float, more: dict[str, str] | None = None, limit: Limits | None = None) -> Ended:
    began = time.monotonic()
    with (
        own_folder() as ends,
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as stacks,
        standard_input() as given,
    ):
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**unfollowed(environment()), **parent(), VARIABLE: str(stacks.fileno()), ENDS: str(ends), **(more or {})},
            pass_fds=[stacks.fileno()],
            start_new_session=True,
        )
        try:
            code, error = _waited(process, seconds, limit, stacks), ""
        except subprocess.TimeoutExpired as e:
            code, error = 1, f"it does not end within {e.timeout:.3g} s"
        finally:
            end(process)
        said.seek(max(0, said.seek(0, os.SEEK_END) - 4 * KEPT))
        took, found = time.monotonic() - began, children_of(ends)
        internal = tuple(text for child in found if child.is_part for text in child.internal)
        others = tuple(child for child in found if not child.is_part)
        return Ended(code, _end_of(said.read()), error, internal, bool(error), took, others)


def _waited(process: subprocess.Popen[bytes], longest: float, limit: Limits | None, stacks: IO[bytes]) -> int:
    """The exit code. Time in which it could run and has no core, since others have them, does not count. Raises TimeoutExpired."""
    began, queued, seconds = time.monotonic(), 0.0, longest if limit is None else min(longest, SOON)
    standing: Standing | None = None
    while True:
        at = began + queued + (seconds if standing is None else min(seconds, standing.due))
        try:
            return process.wait(max(0.0, at - time.monotonic()))
        except subprocess.TimeoutExpired as e:
            before, queued = queued, seconds_queued([process.pid, *below(process.pid)])
            if queued >= before + LOOK:
                continue
            ran = time.monotonic() - began - queued
            if standing is not None and standing.is_still(ran):
                raise subprocess.TimeoutExpired(e.cmd, ran) from None
            if ran < seconds:
                continue
            if limit is None or seconds >= longest:
                raise subprocess.TimeoutExpired(e.cmd, seconds) from None
            found, limit = limit(), None
            seconds = min(longest, max(seconds, found.seconds))
            standing = Standing(process.pid, found.still, lambda: _stack(process.pid, stacks))


def _stack(pid: int, stacks: IO[bytes]) -> str:
    """Where a script stands; it shares the place in the file with us."""
    fd = stacks.fileno()
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    if not ask(pid):
        return ""
    time.sleep(GRACE)
    return os.pread(fd, KEPT, 0).decode(errors="replace")


def _end_of(said: bytes) -> str:
    return said.decode(errors="replace")[-KEPT:].strip()
