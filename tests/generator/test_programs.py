"""Random programs give the same results, exceptions, mutations and output as eager.

`make test` runs PROGRAMS of them, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS.
"""

from __future__ import annotations

import warnings
import zlib

import pytest

from dynamo import internal_errors
from minifier.fuzz.draw.python_programs import PRELUDE, programs
from tests.capture.language import observe
from tests.generator.running import run_new_programs, run_programs

PROGRAMS, PARTS = 1000, 4
WATCHED = 4  # one out of so many compiles with a record, as under `explain`; users have none
INPUTS = (
    "t(3), t(3), 2, True, [t(3), t(3)], {'a': 1, 'b': 4}, Box(t(3), 1)",
    "t(3), t(3), 2, True, [t(3), t(3)], {'a': 1, 'b': 4}, Box(t(3), 1)",
    "-t(3).abs(), t(3), 0, False, [t(3)], {'a': 3}, Box(t(3), 5)",
)


def check_program(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program that hits the recompile limit or an invalid cast warns, as it should
        internal_errors.forget()
        found = observe(PRELUDE + text, INPUTS, fullgraph=False, watched=zlib.crc32(text.encode()) % WATCHED == 0)
    problems = found.differences + [f"internal error: {error}" for error in internal_errors.internal_errors()]
    if problems:
        raise AssertionError("\n" + text + "\n" + "\n".join(problems))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    run_programs(programs(), check_program, part, PROGRAMS // PARTS)


@pytest.mark.fuzz
def test_new_programs() -> None:
    run_new_programs(programs(), check_program, 200)
