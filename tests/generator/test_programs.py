"""Random programs give the same results, exceptions, mutations and output as eager.

`make test` runs PROGRAMS of them, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.capture.language import observe
from tests.generator.programs import PRELUDE, programs

PROGRAMS, PARTS = 2000, 8
INPUTS = (
    "t(3), t(3), 2, True, [t(3), t(3)], {'a': 1, 'b': 4}, Box(t(3), 1)",
    "t(3), t(3), 2, True, [t(3), t(3)], {'a': 1, 'b': 4}, Box(t(3), 1)",
    "-t(3).abs(), t(3), 0, False, [t(3)], {'a': 3}, Box(t(3), 5)",
)
BASE = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
)


def check_program(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program that hits the recompile limit or an invalid cast warns, as it should
        found = observe(PRELUDE + text, INPUTS, fullgraph=False)
    if found.differences:
        raise AssertionError("\n" + text + "\n" + "\n".join(found.differences))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    @seed(part)
    @settings(BASE, max_examples=PROGRAMS // PARTS)
    @given(programs())
    def run(text: str) -> None:
        check_program(text)

    run()


@pytest.mark.fuzz
def test_new_programs() -> None:
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "600"))
    first = int(os.environ.get("FUZZ_SEED", time.time_ns() % 10**9))
    for number in itertools.count(first):
        print(f"FUZZ_SEED={number}", flush=True)

        @seed(number)
        @settings(BASE, max_examples=200)
        @given(programs())
        def run(text: str) -> None:
            check_program(text)

        run()
        if time.monotonic() > until:
            return
