"""How times are taken: both sides in turn in one run, the least of many rounds, garbage collection off."""

from __future__ import annotations

import compileall
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


def precompile() -> None:
    """Write the bytecode of our modules, as pip does for a package that it installs. The peer was installed; we run from a checkout."""
    for package in ("dynamo", "inductor", "minifier", "tui"):
        compileall.compile_dir(Path(__file__).parents[2] / package, quiet=1)


@dataclass(frozen=True)
class Result:
    """One row of the table. `ours` and `peer` are in `unit`; `target` is met when `value` is at most `limit`."""

    name: str
    ours: float
    peer: float | None
    unit: str
    limit: float | None = None
    of_peer: bool = True

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def met(self) -> bool | None:
        value = self.ratio if self.of_peer else self.ours
        return None if self.limit is None or value is None else value <= self.limit

    @property
    def target(self) -> str:
        if self.limit is None:
            return ""
        return f"ratio <= {self.limit:.2f}" if self.of_peer else f"<= {self.limit:g} {self.unit}"


def per_call(functions: Sequence[Callable[[], object]], rounds: int, calls: int) -> list[float]:
    """Least seconds per call of each function, measured in turn."""
    least = [float("inf")] * len(functions)
    for function in functions:
        for _ in range(3):
            function()
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for index, function in enumerate(functions):
                began = time.perf_counter()
                for _ in range(calls):
                    function()
                least[index] = min(least[index], (time.perf_counter() - began) / calls)
    finally:
        gc.enable()
    return least


def once(functions: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """Least of what each function reports in seconds, measured in turn."""
    least = [float("inf")] * len(functions)
    for _ in range(rounds):
        for index, function in enumerate(functions):
            gc.collect()
            least[index] = min(least[index], function())
    return least


def in_new_process(program: str) -> float:
    """Run a program that prints seconds as its last line."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"a measured program failed:\n{program}\n{done.stderr}")
    return float(done.stdout.strip().splitlines()[-1])


def slope(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """Seconds per unit of count, by least squares."""
    n = len(counts)
    mean_x, mean_y = sum(counts) / n, sum(seconds) / n
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(counts, seconds, strict=True))
    return above / sum((x - mean_x) ** 2 for x in counts)
