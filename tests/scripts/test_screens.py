"""The first screen of `explain` on each script: golden, within 45 lines of 100 columns, and saying what its author wants to know first.

`make accept PYTEST_ARGS="tests/scripts -m 'slow or not slow'"` takes what the screens are into the golden files.
"""

from __future__ import annotations

import difflib
import os

import pytest

from tests.scripts.screen import GOLDEN, golden_file, normalised, unfit, unsaid
from tests.scripts.script import Script, differences, expected_file, explained, scripts
from tui.views.page import HEIGHT, WIDTH

ALL = [pytest.param(s, id=s.name, marks=() if s.quick else pytest.mark.slow) for s in scripts()]


@pytest.mark.parametrize("script", ALL)
def test_the_screen_of(script: Script) -> None:
    done = explained(script)
    shown = normalised(done.stdout)
    if os.environ.get("ACCEPT_GOLDEN"):
        golden_file(script).write_text(shown, encoding="utf-8")

    assert not differences(script, done, expected_file(script).read_text(encoding="utf-8"))
    assert not unfit(done.stdout)
    assert not unsaid(script, shown)
    golden = golden_file(script).read_text(encoding="utf-8")
    assert not [*difflib.unified_diff(golden.splitlines(), shown.splitlines(), "golden", "shown", lineterm="")]


@pytest.mark.parametrize("script", scripts(), ids=lambda s: s.name)
def test_the_golden_screen_says_what_comes_first(script: Script) -> None:
    golden = golden_file(script).read_text(encoding="utf-8")

    assert script.says
    assert not unsaid(script, golden)
    assert not unfit(golden)


def test_every_golden_screen_has_its_script() -> None:
    assert sorted(p.name for p in GOLDEN.glob("*.txt")) == sorted(golden_file(s).name for s in scripts())


def test_what_does_not_fit_is_found() -> None:
    assert unfit("x\n" * (HEIGHT + 1)) == [f"{HEIGHT + 1} lines, {HEIGHT} fit"]
    assert len(unfit("x" * (WIDTH + 1))) == 1


def test_times_and_processes_are_left_out_of_golden_files() -> None:
    text = "  ✓ f  a.py:1    0.12 s  1 compile\n  0.31 s compiling, slowest stage build: 0.20 s (64%)\n  in pid 4711\n"

    assert normalised(text) == "  ✓ f  a.py:1  T  1 compile\n  T compiling, slowest stage S\n  in pid P\n"
