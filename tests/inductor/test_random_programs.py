"""Random tensor programs: compiled, compiled without any optional step, and interpreted, each equal to eager.

`make test` runs PROGRAMS of them, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS. What a difference was traced to
has its shortest program in `test_found.py`.
"""

from __future__ import annotations

import pytest

from dynamo import config, internal_errors
from minifier.fuzz.draw.tensor_programs import Program, programs
from tests.generator.running import run_new_programs, run_programs
from tests.inductor.program_check import check_program

PROGRAMS, PARTS = 500, 10


def check(program: Program) -> None:
    with config.patch(c_optimize=1):  # most of the time is the C compiler's
        internal_errors.forget()
        check_program(program)
    found = internal_errors.internal_errors()
    assert not found, f"internal errors: {found}\n{program!r}"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    run_programs(programs(), check, part, PROGRAMS // PARTS)


@pytest.mark.fuzz
def test_new_programs() -> None:
    run_new_programs(programs(), check, 100)
