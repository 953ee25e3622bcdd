"""Runs a check on programs that a Hypothesis strategy draws: the same ones each time, or new ones until a time is up."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

BASE = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
)

P = TypeVar("P")


def run_programs(programs: SearchStrategy[P], check: Callable[[P], None], number: int, count: int) -> None:
    """Check `count` programs; those of one number are always the same."""

    @seed(number)
    @settings(BASE, max_examples=count)
    @given(programs)
    def run(program: P) -> None:
        check(program)

    run()


def run_new_programs(programs: SearchStrategy[P], check: Callable[[P], None], count: int) -> None:
    """Check `count` at a time for FUZZ_SECONDS, from FUZZ_SEED on. Each number is printed, for `run_programs` to repeat."""
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    first = int(os.environ.get("FUZZ_SEED", time.time_ns() % 10**9))
    for number in itertools.count(first):
        print(f"FUZZ_SEED={number}", flush=True)
        run_programs(programs, check, number, count)
        if time.monotonic() > until:
            return
