"""Batches of programs, each in a process of its own that is forked from one in which everything is loaded.

A process ends at its first program that differs from eager, crashes or does not end; the rest of the batch goes on in a fresh one. So the
number of programs that ran is exact, and each failure has the number of its program.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import mmap
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from dynamo import config
from inductor.targets.cpu import machine, mathlib
from tests.generator.families import FAMILIES
from tests.generator.running import run_programs

WARMING = 8  # programs of each family that show which modules are loaded
PAUSE = 0.02  # seconds between two looks at the processes
LAST = 3.0  # no program begins in these last seconds of a run that is limited
DONE, DIFFERS, UNDRAWN, TIME_IS_UP = 80, 81, 82, 83  # exit codes of a process: none that a program would choose
KINDS = {DONE: "", DIFFERS: "differs", UNDRAWN: "not drawn", TIME_IS_UP: "time is up"}
leave = sys.exit
_WIDTH = 8  # bytes of a number in shared memory


@dataclass(frozen=True)
class Batch:
    """`count` programs of one number; those before `first` are drawn, but not checked."""

    family: str
    number: int
    count: int
    first: int = 0

    def arguments(self, program: int | None = None) -> list[str]:
        """What draws the same programs again."""
        named = [] if program is None else ["--program", str(program)]
        return ["--family", self.family, "--number", str(self.number), "--batch", str(self.count), *named]


@dataclass(frozen=True)
class Outcome:
    """What became of one process. `ran` programs came to a verdict in so many `seconds` of a processor.

    `kind` says why it ended before all had, at program `at`: "differs", "crashed", "no end", "not drawn", "time is up"; "" if they had.
    """

    batch: Batch
    seconds: float
    ran: int
    kind: str = ""
    at: int = 0
    failure: str = ""

    def rest(self) -> Batch | None:
        """What is still to be checked after a program that failed."""
        if self.kind not in ("differs", "crashed", "no end") or self.at + 1 >= self.batch.count:
            return None
        return replace(self.batch, first=self.at + 1)


class TimeIsUp(BaseException):
    """Ends a batch between two programs."""


class Differs(BaseException):
    """Ends a batch at a program that differs: nothing is shrunk here."""


def warm() -> None:
    """Load now what every process would load otherwise: what one of them did load. Nothing is compiled here, which might start threads."""
    torch.set_num_threads(1)  # teams of threads don't survive a fork
    for name in modules_loaded():
        with contextlib.suppress(ImportError):  # made by a program, not found by name
            importlib.import_module(name)
    machine.machine()
    mathlib.has_any()
    gc.collect()
    gc.freeze()


def modules_loaded() -> list[str]:
    """Names of the modules that programs of all families load, in order, found by a process that runs some."""
    with tempfile.TemporaryFile("w+") as names:
        pid = os.fork()
        if pid == 0:
            before = set(sys.modules)
            for family in FAMILIES.values():
                with contextlib.suppress(Exception):  # found again in its batch
                    run_programs(family.strategy(), family.check, 0, WARMING)
            names.write("\n".join(name for name in sys.modules if name not in before))
            names.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        names.seek(0)
        return names.read().split()


@dataclass
class _Process:
    batch: Batch
    pid: int
    slot: int
    folder: Path
    seen: int = -1
    seen_at: float = field(default_factory=time.monotonic)


class Workers:
    """At most `count` processes at a time. `until` (time.monotonic) is the end of the run, `patience` the seconds for one program."""

    def __init__(self, count: int, until: float, patience: float) -> None:
        self.until, self.patience = until, patience
        self.free = list(range(count))
        self.progress = mmap.mmap(-1, _WIDTH * count)
        self.running: list[_Process] = []
        self.folder = Path(tempfile.mkdtemp(prefix="programs-"))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def outcomes(self, batches: Iterator[Batch]) -> Iterator[Outcome]:
        """In the order they come in. What a failed batch has left is done first."""
        left: list[Batch] = []
        more = True
        while more or left or self.running:
            while self.free and (more or left) and time.monotonic() < self.until - LAST:
                batch = left.pop() if left else next(batches, None)
                if batch is None:
                    more = False
                    break
                self.start(batch)
            if not self.running and time.monotonic() >= self.until - LAST:
                return
            time.sleep(PAUSE)
            for outcome in self.ended():
                rest = outcome.rest()
                if rest is not None:
                    left.append(rest)
                yield outcome

    def start(self, batch: Batch) -> None:
        slot = self.free.pop()
        self.write(slot, batch.first)
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            self.serve(batch, slot, folder)
        self.running.append(_Process(batch, pid, slot, folder))

    def write(self, slot: int, number: int) -> None:
        self.progress[slot * _WIDTH : (slot + 1) * _WIDTH] = number.to_bytes(_WIDTH, "little")

    def read(self, slot: int) -> int:
        return int.from_bytes(self.progress[slot * _WIDTH : (slot + 1) * _WIDTH], "little")

    def ended(self) -> list[Outcome]:
        found = []
        now = time.monotonic()
        for process in list(self.running):
            done = self.read(process.slot)
            if done != process.seen:
                process.seen, process.seen_at = done, now
            over = now > self.until
            hangs = now - process.seen_at > self.patience
            if over or hangs:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            pid, status, used = os.wait4(process.pid, 0 if over or hangs else os.WNOHANG)
            if pid:
                kind = "time is up" if over else "no end" if hangs else ""
                found.append(self.outcome(process, status, kind, used.ru_utime + used.ru_stime))
                self.running.remove(process)
                self.free.append(process.slot)
                shutil.rmtree(process.folder, ignore_errors=True)
        return found

    def outcome(self, process: _Process, status: int, kind: str, seconds: float) -> Outcome:
        batch, done = process.batch, self.read(process.slot)
        code = os.waitstatus_to_exitcode(status)
        if not kind:
            kind = KINDS.get(code, "crashed")
        said = (process.folder / "said").read_text(errors="replace")
        ran = done - batch.first + (kind in ("differs", "crashed", "no end") and done < batch.count)
        return Outcome(batch, seconds, ran, kind, done, f"{kind} (exit code {code})\n{said[:8000]}")

    def serve(self, batch: Batch, slot: int, folder: Path) -> NoReturn:
        """In the forked process. It ends as a program does, so that a crash at the end of the interpreter is seen too."""
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        faulthandler.enable(2)  # a crash says where the program was
        (folder / "cache").mkdir(mode=0o700)
        code = DONE
        try:
            with config.patch(cache_dir=str(folder / "cache")):  # nothing is found that an earlier run has made
                check_batch(batch, lambda done: self.write(slot, done), self.until - LAST)
        except TimeIsUp:
            code = TIME_IS_UP
        except Differs:
            code = DIFFERS
        except BaseException:  # noqa: BLE001  # of drawing: it would come again
            os.write(2, traceback.format_exc().encode(errors="replace"))
            code = UNDRAWN
        leave(code)


def check_batch(batch: Batch, report: Any, until: float) -> None:
    """Check programs until one differs, which is printed, and report after each how many there were."""
    family, drawn = FAMILIES[batch.family], 0

    def check(program: Any) -> None:
        nonlocal drawn
        drawn += 1
        if drawn <= batch.first:
            return
        if time.monotonic() > until:
            raise TimeIsUp
        try:
            family.check(program)
        except Exception as error:  # noqa: BLE001  # whatever it raises is a failure
            os.write(2, "".join(traceback.format_exception(error, limit=-12)).encode(errors="replace"))
            raise Differs from None
        report(drawn)

    run_programs(family.strategy(), check, batch.number, batch.count)


def drawn_program(batch: Batch, at: int) -> Any:
    """One program of a batch."""
    programs: list[Any] = []
    run_programs(FAMILIES[batch.family].strategy(), programs.append, batch.number, batch.count)
    return programs[at]
