"""Whether a written repro shows its failure when it is run as its reader would: in a new interpreter."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from minifier.doors import is_door
from minifier.engine import Kind, Signature
from minifier.isolation.linux import end
from minifier.warmed import Early, Warmed, code_of

SHOWN, WORKS, OTHERWISE = 1, 0, 4  # exit codes of a repro
RUNS = 3
RUNS_OF_FLAKY = 12
MOST = 30  # where none of these shows the failure: one that comes three times in ten is missed in 12 runs once in seventy
CERTAIN = 0.999
OF_FORKS = (Kind.EXCEPTION, Kind.ACCURACY)  # failures that a process survives: of others a fork may have its own


@dataclass(frozen=True)
class Rate:
    """How often a repro showed its failure. `ends` says how the other runs ended, each way once."""

    hits: int
    runs: int
    ends: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        return self.hits / self.runs if self.runs else 0.0

    def and_also(self, other: Rate) -> Rate:
        """Both together."""
        return Rate(self.hits + other.hits, self.runs + other.runs, tuple(dict.fromkeys(self.ends + other.ends)))

    def __str__(self) -> str:
        return f"{self.hits} of {self.runs}"


@dataclass(frozen=True)
class Bounds:
    """What a run may use. `memory` is in bytes, None: no limit."""

    seconds: float = 120.0
    memory: int | None = None


def measured(path: Path, signature: Signature, rate: float = 1.0, bounds: Bounds | None = None, warmed: Warmed | None = None) -> Rate:
    """Run a repro several times; more often where the failure is flaky, by the `rate` of the reduction or by these runs.

    The first run is in a new interpreter. The others may be forks of a `warmed` process, as long as all runs end alike.
    """
    is_steady = rate >= CERTAIN
    if warmed is not None and is_steady and signature.kind in OF_FORKS:
        first = _beside_forks(path, signature, bounds or Bounds(), warmed)
    else:
        first = run_times(path, signature, RUNS, bounds)
    if is_steady and first.hits in (0, RUNS):
        return first
    found = first.and_also(run_times(path, signature, RUNS_OF_FLAKY - RUNS, bounds))
    return found if found.hits else found.and_also(run_times(path, signature, MOST - RUNS_OF_FLAKY, bounds))


def _beside_forks(path: Path, signature: Signature, bounds: Bounds, warmed: Warmed) -> Rate:
    """One run in a new interpreter and forks for the rest. Where these do not show the failure too, new interpreters say how it is."""
    forks = [warmed.run(path) for _ in range(RUNS - 1)]
    is_shown, how = once(path, signature, bounds, warmed.early)
    if is_shown and all(_is_shown(code_of(fork.result()), signature) for fork in forks):
        return Rate(RUNS, RUNS)
    more = run_times(path, signature, RUNS - 1, bounds)
    return Rate(is_shown + more.hits, RUNS, more.ends if is_shown else tuple(dict.fromkeys((how, *more.ends))))


def run_times(path: Path, signature: Signature, runs: int, bounds: Bounds | None = None) -> Rate:
    """Run a repro so many times, each in a new interpreter, and as many at a time as there are cores; all at
    once where they are not expected to end."""
    at_once = runs if signature.kind is Kind.HANG else min(runs, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(at_once, thread_name_prefix="certify") as pool:
        found = list(pool.map(lambda _: once(path, signature, bounds or Bounds()), range(runs)))
    hits = sum(is_shown for is_shown, _ in found)
    return Rate(hits, runs, tuple(dict.fromkeys(how for is_shown, how in found if not is_shown)))


def once(path: Path, signature: Signature, bounds: Bounds, early: Early | None = None) -> tuple[bool, str]:
    """Run a repro once in a new interpreter, which may have been started early: whether it shows the failure, and how it ended. Nothing it
    starts outlives the call."""
    if early is not None:
        early.run(path)
        return _ended(early.process, early.said, signature, bounds)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if bounds.memory is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (bounds.memory, bounds.memory))

    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, str(path.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=path.parent,
            env=environment(),
            start_new_session=True,
            preexec_fn=limit,  # two system calls, no locks
        )
        return _ended(process, said, signature, bounds)


def _ended(process: subprocess.Popen[bytes], said: IO[bytes], signature: Signature, bounds: Bounds) -> tuple[bool, str]:
    try:
        process.wait(bounds.seconds)
    except subprocess.TimeoutExpired:
        return signature.kind is Kind.HANG, f"still running after {bounds.seconds:g} s"
    finally:
        end(process)
    said.seek(max(0, said.seek(0, os.SEEK_END) - 20_000))
    text = said.read().decode(errors="replace").strip()
    last = text.splitlines()[-1][:200] if text else ""
    return _is_shown(process.returncode, signature), f"exit code {process.returncode}" + (f": {last}" if last else "")


def environment() -> dict[str, str]:
    """The environment of a run: what this process imports can be imported, and no door of the minifier is open."""
    kept = {k: v for k, v in os.environ.items() if not is_door(k)}
    return {**kept, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}


def _is_shown(code: int | None, signature: Signature) -> bool:
    match signature.kind:
        case Kind.SIGNAL:
            return code == -signature.code
        case Kind.EXIT:
            return code == signature.code
        case Kind.HANG:
            return False
    return code == SHOWN
