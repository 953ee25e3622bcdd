"""Random tensor programs: compiled, compiled without any optional step, and interpreted, each equal to eager.

`make test` runs PROGRAMS of them, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS. What a difference was traced to
has its shortest program in `test_found.py`.
"""

from __future__ import annotations

import itertools
import os
import time

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from dynamo import config
from tests.inductor.program_check import check_program
from tests.inductor.programs import Program, programs

PROGRAMS, PARTS = 1000, 20
BASE = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
)


def check(program: Program) -> None:
    with config.patch(c_optimize=1):  # most of the time is the C compiler's
        check_program(program)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    @seed(part)
    @settings(BASE, max_examples=PROGRAMS // PARTS)
    @given(programs())
    def run(program: Program) -> None:
        check(program)

    run()


@pytest.mark.fuzz
def test_new_programs() -> None:
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    first = int(os.environ.get("FUZZ_SEED", time.time_ns() % 10**9))
    for number in itertools.count(first):
        print(f"FUZZ_SEED={number}", flush=True)

        @seed(number)
        @settings(BASE, max_examples=100)
        @given(programs())
        def run(program: Program) -> None:
            check(program)

        run()
        if time.monotonic() > until:
            return
