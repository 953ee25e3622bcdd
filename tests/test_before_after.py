"""The comparison of a revision with the working tree takes the revision's files from a folder, and ends in time with what it has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.benchmarks import before_after

PROBE = """
import json, sys
import dynamo
if sys.argv[1] == "kernels":
    raise SystemExit("no kernels here")
print(json.dumps({f"{sys.argv[1]} {dynamo.SIDE}": 1.0, sys.argv[1]: dynamo.COST}))
"""


def tree(folder: Path, side: str, cost: float) -> Path:
    """A product that answers the probe with its own cost, and tests that only the new side's are asked of both."""
    for package in ("dynamo", "inductor", "tests/benchmarks", "build"):
        (folder / package).mkdir(parents=True)
    (folder / "dynamo/__init__.py").write_text(f"SIDE = {side!r}\nCOST = {cost}\n")
    (folder / "setup.py").write_text("")
    (folder / "tests/benchmarks/probe.py").write_text(PROBE if side == "new" else "raise SystemExit('the old probe')")
    return folder


def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> int:
    monkeypatch.setattr(before_after, "ROOT", tree(tmp_path / "new tree", "new", 2.0))
    old = tree(tmp_path / "old tree", "old", 3.0)
    monkeypatch.setattr(sys, "argv", ["before_after", "r1", "--old-tree", str(old), "--sides", str(tmp_path / "sides"), *words])
    return before_after.main()


def test_old_tree_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(monkeypatch, tmp_path, "--only", "calls", "--rounds", "1") == 0
    row, _, end = capsys.readouterr().out.splitlines()
    assert row.split() == ["calls", "3.00000", "2.00000", "1.500"]
    assert end == "1 rows, old to new: geomean 1.500, worst 1.500 (calls)"
    assert not (tmp_path / "sides/old/build").exists()


def test_questions_that_fail(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(before_after, "PROBES", ((("kernels",), 1), (("calls",), 1)))
    assert compared(monkeypatch, tmp_path, "--rounds", "2") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].startswith("calls ")
    assert printed.err.count("no kernels here") == 1


def test_no_time_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(monkeypatch, tmp_path, "--minutes", "0") == 1
    assert capsys.readouterr() == ("", "no row was measured; give more --minutes\n")
