"""Random programs by the hundred thousand: `python -m tests.generator --programs 100000 --workers 16`.

Programs go out in batches, each to a process of its own, so that one that crashes or hangs is named and the rest go on. A batch has a
number, from which the same programs are drawn again: `python -m tests.generator --family state-aot --number 41 --batch 200`.
Of a batch that fails no program counts as run: it ends at the first difference, and nobody knows how many came before.
Exits with 1 if any program differed from eager.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.generator.families import FAMILIES
from tests.generator.running import run_programs


@dataclass(frozen=True)
class Batch:
    family: str
    number: int
    count: int


@dataclass(frozen=True)
class Outcome:
    """`failure` is what the process said, if it did not end well."""

    batch: Batch
    seconds: float
    failure: str | None


def batches(families: list[str], first: int, programs: int, size: int) -> Iterator[Batch]:
    """Families take turns, so that a run that is stopped has drawn of all of them."""
    total = sum(FAMILIES[f].share for f in families)
    left = {f: programs * FAMILIES[f].share // total for f in families}
    left[families[0]] += programs - sum(left.values())
    number = first
    while any(left.values()):
        for family in families:
            for _ in range(FAMILIES[family].share):
                count = min(size, left[family])
                if count:
                    yield Batch(family, number, count)
                    left[family] -= count
                    number += 1


def arguments(batch: Batch) -> list[str]:
    """What draws the same programs again."""
    return ["--family", batch.family, "--number", str(batch.number), "--batch", str(batch.count)]


def run(batch: Batch, timeout: float) -> Outcome:
    command = [sys.executable, "-m", "tests.generator", *arguments(batch)]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as e:
        said = e.stdout.decode(errors="replace") if isinstance(e.stdout, bytes) else e.stdout or ""
        return Outcome(batch, time.monotonic() - started, f"no end after {timeout:.0f} s\n{said}")
    failure = None if done.returncode == 0 else f"exit code {done.returncode}\n{done.stdout[-6000:]}"
    return Outcome(batch, time.monotonic() - started, failure)


def main() -> int:
    options = _parser().parse_args()
    if options.family and options.number is not None:
        family = FAMILIES[options.family]
        run_programs(family.strategy(), family.check, options.number, options.batch)
        return 0
    families = [options.family] if options.family else list(FAMILIES)
    started = time.monotonic()
    programs, seconds, failed = Counter[str](), Counter[str](), Counter[str]()
    left: list[int] = []
    begun = 0
    with ThreadPoolExecutor(options.workers) as pool:

        def start(batch: Batch) -> Outcome | Batch:
            over = options.seconds is not None and time.monotonic() - started > options.seconds
            return batch if over else run(batch, options.timeout)

        for outcome in pool.map(start, batches(families, options.first, options.programs, options.batch)):
            if isinstance(outcome, Batch):
                left.append(outcome.number)
                continue
            batch = outcome.batch
            begun += batch.count
            programs[batch.family] += batch.count if outcome.failure is None else 0
            seconds[batch.family] += outcome.seconds
            if outcome.failure is not None:
                failed[batch.family] += 1
                print("failed:", *arguments(batch), flush=True)
                if options.out:
                    options.out.mkdir(parents=True, exist_ok=True)
                    (options.out / f"{batch.family}-{batch.number}.txt").write_text(outcome.failure)
                else:
                    print(outcome.failure, flush=True)
    for family in families:
        rate = programs[family] / max(seconds[family], 1e-9)
        print(f"{family:16} {programs[family]:8} programs  {rate:6.1f} a second on one core  {failed[family]} batches failed")
    took = f"{time.monotonic() - started:.0f} s on {options.workers} cores"
    print(f"{sum(programs.values())} programs in {took}, {failed.total()} batches failed")
    if left:
        print(f"time is up: --first {left[0]} --programs {options.programs - begun} goes on")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.generator", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=10_000, help="how many programs in all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--family", choices=FAMILIES, help="programs of this kind only")
    parser.add_argument("--first", type=int, default=1_000_000, help="number of the first batch")
    parser.add_argument("--number", type=int, help="run one batch of a family in this process")
    parser.add_argument("--batch", type=int, default=200, help="programs of a batch")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds until a batch counts as hung")
    parser.add_argument("--seconds", type=float, help="start no batch after this many")
    parser.add_argument("--out", type=Path, help="folder for what failed batches said")
    return parser


if __name__ == "__main__":
    sys.exit(main())
