"""Random programs by the hundred thousand: `python -m tests.generator --programs 100000 --workers 16`.

Programs go out in batches, each to a process of its own, so that one that crashes or hangs is named and the rest go on. A batch has a
number, from which the same programs are drawn again, and a program its place in it:
`python -m tests.generator --family state-aot --number 41 --batch 100 --program 7`, or without `--program` all of the batch, where
the first that fails is shrunk. Exits with 1 if any program differed from eager, crashed or did not end.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")  # before torch is loaded: programs run on one processor

from tests.generator import BEGAN
from tests.generator.families import FAMILIES
from tests.generator.running import run_programs
from tests.generator.workers import Batch, Outcome, Workers, drawn_program, warm

NEVER = 1e9  # seconds


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


class Summary:
    """What a run is quoted by: programs that came to a verdict, those that failed, and those that did not end."""

    def __init__(self, families: list[str], workers: int, out: Path | None) -> None:
        self.families, self.workers, self.out = families, workers, out
        self.began = BEGAN
        self.ran, self.seconds, self.hung, self.failed, self.undrawn = (Counter[str]() for _ in range(5))
        self.cut = 0
        self.last = -1

    def add(self, outcome: Outcome) -> None:
        batch, family = outcome.batch, outcome.batch.family
        self.last = max(self.last, batch.number)
        self.ran[family] += outcome.ran
        self.seconds[family] += outcome.seconds
        if outcome.kind == "time is up":
            self.cut += 1
        if outcome.kind in ("", "time is up"):
            return
        counter = {"no end": self.hung, "not drawn": self.undrawn}.get(outcome.kind, self.failed)
        counter[family] += 1
        print(f"{outcome.kind}:", *batch.arguments(outcome.at), flush=True)
        if self.out:
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / f"{family}-{batch.number}-{outcome.at}.txt").write_text(outcome.failure)
        else:
            print(outcome.failure, flush=True)

    def lines(self) -> Iterator[str]:
        for f in self.families:
            each = 1000 * self.seconds[f] / max(self.ran[f], 1)
            yield f"{f:16} {self.ran[f]:8} programs  {self.failed[f]} failed  {self.hung[f]} had no end  {each:6.1f} ms of a processor each"
        took = time.monotonic() - self.began
        ran, cores = self.ran.total(), f"{self.workers} core{'s' if self.workers > 1 else ''}"
        yield f"{ran} programs ran in {took:.0f} s on {cores} ({ran / max(took, 1e-9) / self.workers:.2f} a second per core)"
        yield f"{self.failed.total()} failed, {self.hung.total()} had no end, {self.undrawn.total()} batches could not be drawn"

    @property
    def is_clean(self) -> bool:
        return not (self.failed or self.hung or self.undrawn)


def repeat(batch: Batch, program: int | None) -> int:
    """One program, or a batch of them whose first failure is shrunk, in this process."""
    family = FAMILIES[batch.family]
    if program is None:
        run_programs(family.strategy(), family.check, batch.number, batch.count)
    else:
        family.check(drawn_program(batch, program))
    return 0


def main() -> int:
    options = _parser().parse_args()
    if options.family and options.number is not None:
        return repeat(Batch(options.family, options.number, options.batch), options.program)
    families = [options.family] if options.family else list(FAMILIES)
    summary = Summary(families, options.workers, options.out)
    until = summary.began + (NEVER if options.seconds is None else options.seconds)
    warm()
    workers = Workers(options.workers, until, options.timeout)
    for outcome in workers.outcomes(batches(families, options.first, options.programs, options.batch)):
        summary.add(outcome)
    workers.close()
    print(*summary.lines(), sep="\n")
    if summary.cut:
        print(f"time was up for {summary.cut} batches; --first {summary.last + 1} goes on")
    return 0 if summary.is_clean else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.generator", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=10_000, help="how many programs in all")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--family", choices=FAMILIES, help="programs of this kind only")
    parser.add_argument("--first", type=int, default=1_000_000, help="number of the first batch")
    parser.add_argument("--number", type=int, help="run one batch of a family in this process")
    parser.add_argument("--program", type=int, help="only this program of it, counted from 0")
    parser.add_argument("--batch", type=int, default=100, help="programs of a batch")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds until a program counts as one without end")
    parser.add_argument("--seconds", type=float, help="the run ends after this many; what has no verdict then does not count")
    parser.add_argument("--out", type=Path, help="folder for what failed programs said")
    return parser


if __name__ == "__main__":
    sys.exit(main())
