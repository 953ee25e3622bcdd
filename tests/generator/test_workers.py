"""A run tells how many programs came to a verdict, and names each one that differs, crashes or does not end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from tests.generator import workers
from tests.generator.families import FAMILIES, Family
from tests.generator.running import run_programs
from tests.generator.workers import Batch, Outcome, Workers

COUNT, FOREVER = 20, 1e9
BATCH = Batch("python", 1, COUNT)


def integers() -> st.SearchStrategy[int]:
    return st.integers(0, 1 << 40)


def check_of(what: Callable[[], object], at: int | None = None) -> Callable[[int], None]:
    programs: list[int] = []
    run_programs(integers(), programs.append, BATCH.number, COUNT)
    bad = None if at is None else programs[at]

    def check(program: int) -> None:
        if program == bad:
            what()

    return check


@pytest.fixture(autouse=True)
def _without_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """What unwinds a forked process must not come to the test that forked it."""
    monkeypatch.setattr(workers, "leave", os._exit)


def run(monkeypatch: pytest.MonkeyPatch, check: Callable[[int], None], until: float = FOREVER) -> list[Outcome]:
    monkeypatch.setitem(FAMILIES, "python", Family(integers, check, 1))
    monkeypatch.setattr(workers, "LAST", 0.0)
    pool = Workers(2, until, patience=1.0)
    found = list(pool.outcomes(iter([BATCH])))
    pool.close()
    return found


def wrong() -> None:
    raise AssertionError("wrong value")


def test_all_that_ran_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    (outcome,) = run(monkeypatch, check_of(wrong))
    assert (outcome.ran, outcome.kind) == (COUNT, "")


@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        (wrong, "differs", "wrong value"),
        (lambda: os.kill(os.getpid(), 11), "crashed", "exit code -11)\nFatal Python error: Segmentation fault"),
        (lambda: time.sleep(60), "no end", ""),
        (lambda: os._exit(0), "crashed", ""),
    ],
)
def test_the_rest_of_a_batch_goes_on(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object], kind: str, said: str) -> None:
    first, second = run(monkeypatch, check_of(what, 5))
    assert (first.ran, first.kind, first.at) == (6, kind, 5)
    assert said in first.failure
    assert (second.ran, second.kind) == (COUNT - 6, "")


def test_what_has_no_verdict_in_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    (outcome,) = run(monkeypatch, check_of(lambda: time.sleep(60), 7), time.monotonic() + 0.8)
    assert (outcome.ran, outcome.kind) == (7, "time is up")


def test_a_failure_while_drawing_ends_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    check = check_of(wrong)
    monkeypatch.setitem(FAMILIES, "python", Family(lambda: st.integers().map(lambda n: 1 // 0), check, 1))
    pool = Workers(1, FOREVER, patience=1.0)
    (outcome,) = pool.outcomes(iter([BATCH]))
    pool.close()
    assert (outcome.ran, outcome.kind) == (0, "not drawn")


def test_a_program_is_drawn_again_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.generator", "--family", "python", "--number", "3", "--batch", "10", "--program", "4"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
