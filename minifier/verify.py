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

from minifier.doors import is_door
from minifier.engine import Kind, Signature
from minifier.isolation.linux import end

SHOWN, WORKS, OTHERWISE = 1, 0, 4  # exit codes of a repro
RUNS = 3
RUNS_OF_FLAKY = 12
CERTAIN = 0.999


@dataclass(frozen=True)
class Rate:
    """How often a repro showed its failure. `ends` says how the other runs ended, each way once."""

    hits: int
    runs: int
    ends: tuple[str, ...] = ()

    @property
    def value(self) -> float:
        return self.hits / self.runs if self.runs else 0.0

    def __str__(self) -> str:
        return f"{self.hits} of {self.runs}"


@dataclass(frozen=True)
class Bounds:
    """What a run may use. `memory` is in bytes, None: no limit."""

    seconds: float = 120.0
    memory: int | None = None


def measured(path: Path, signature: Signature, rate: float = 1.0, bounds: Bounds | None = None) -> Rate:
    """Run a repro several times; more often where the failure is flaky, by the `rate` of the reduction or by these runs."""
    first = run_times(path, signature, RUNS, bounds)
    if rate >= CERTAIN and first.hits in (0, RUNS):
        return first
    more = run_times(path, signature, RUNS_OF_FLAKY - RUNS, bounds)
    return Rate(first.hits + more.hits, RUNS_OF_FLAKY, tuple(dict.fromkeys(first.ends + more.ends)))


def run_times(path: Path, signature: Signature, runs: int, bounds: Bounds | None = None) -> Rate:
    """Run a repro so many times, each in a new interpreter, and as many at a time as there are cores; all at
    once where they are not expected to end."""
    at_once = runs if signature.kind is Kind.HANG else min(runs, len(os.sched_getaffinity(0)))
    with ThreadPoolExecutor(at_once, thread_name_prefix="certify") as pool:
        found = list(pool.map(lambda _: once(path, signature, bounds or Bounds()), range(runs)))
    hits = sum(is_shown for is_shown, _ in found)
    return Rate(hits, runs, tuple(dict.fromkeys(end for is_shown, end in found if not is_shown)))


def once(path: Path, signature: Signature, bounds: Bounds) -> tuple[bool, str]:
    """Run a repro once: whether it shows the failure, and how it ended. Nothing it starts outlives the call."""

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
        try:
            process.wait(bounds.seconds)
        except subprocess.TimeoutExpired:
            return signature.kind is Kind.HANG, f"still running after {bounds.seconds:g} s"
        finally:
            end(process)
        said.seek(max(0, said.tell() - 20_000))
        text = said.read().decode(errors="replace").strip()
    last = text.splitlines()[-1][:200] if text else ""
    return _is_shown(process.returncode, signature), f"exit code {process.returncode}" + (f": {last}" if last else "")


def environment() -> dict[str, str]:
    """The environment of a run: what this process imports can be imported, and no door of the minifier is open."""
    kept = {k: v for k, v in os.environ.items() if not is_door(k)}
    return {**kept, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}


def _is_shown(code: int, signature: Signature) -> bool:
    match signature.kind:
        case Kind.SIGNAL:
            return code == -signature.code
        case Kind.EXIT:
            return code == signature.code
        case Kind.HANG:
            return False
    return code == SHOWN
