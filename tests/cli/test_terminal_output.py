"""What the command line does for people at a terminal, and leaves out in pipes: completion, pages, colours, progress."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from dynamo.backends.registry import list_backends
from dynamo.breaks import REASONS
from dynamo.trace.stages import BY_NAME
from tests.cli.command import COMMAND, TIMEOUT, environment, run
from tests.trace.test_quick import sample_record
from tests.tui.test_terminal import Terminal

PAGER = "sh -c 'echo the pager has it; cat'"
COLOUR = "\x1b[1m"


def completed(words: str, cwd: Path) -> list[str]:
    """What bash offers for the last word."""
    asked = {"_DYNAMO_DEBUG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(COMMAND, cwd=cwd, env={**environment(), **asked}, capture_output=True, text=True, timeout=TIMEOUT)
    return done.stdout.split()


@pytest.mark.parametrize(
    "words, offered",
    [
        ("explain --stage ", list(BY_NAME)),
        ("explain --engine t", ["torch"]),
        ("graphs --backend aot", [name for name in list_backends(exclude_tags=()) if name.startswith("aot")]),
        ("explain --code DD00", [name for name in REASONS if name.startswith("DD00")]),
    ],
)
def test_values_are_completed(words: str, offered: list[str], tmp_path: Path) -> None:
    assert offered
    assert completed(f"dynamo-debug {words}", tmp_path) == offered


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_record(tmp_path_factory.mktemp("terminal"))


@pytest.mark.parametrize("colour", [True, False], ids=["colour", "NO_COLOR"])
def test_long_output_goes_through_the_pager(colour: bool, record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", PAGER)
    terminal = Terminal("explain", str(record), cwd=record.parent, columns=100, lines=8, colour=colour)
    terminal.wait_for("dynamo-debug breaks")
    os.waitpid(terminal.pid, 0)

    assert "the pager has it" in terminal.seen
    assert (COLOUR in terminal.seen) == colour


def test_pipes_get_plain_text(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", PAGER)
    done = run("explain", str(record), cwd=record.parent)

    assert "dynamo-debug breaks" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "the pager has it" not in done.stdout


def test_what_takes_longer_than_a_second_says_so_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\ntime.sleep(3)\n")
    terminal = Terminal("explain", "script.py", cwd=tmp_path)
    terminal.wait_for("dynamo-debug: running script.py: ")
    os.waitpid(terminal.pid, 0)


def test_pipes_get_no_progress(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time\ntime.sleep(2)\n")

    assert "running script.py" not in run("explain", "script.py", cwd=tmp_path).stderr
