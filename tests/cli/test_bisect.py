"""`dynamo-debug bisect`: from wrong numbers to the decision that makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run, write
from tests.schemas import validate

MODEL = """
import torch

@torch.compile
def f(x, y):
    print("inside")
    a = torch.sin(x) * y
    return torch.softmax(torch.nn.functional.dropout(a), -1)

torch.manual_seed(0)
f(torch.randn(8, 32), torch.randn(8, 32)).sum()
"""
FIELDS = {"verdict", "confidence", "stage", "graph", "node", "file", "line", "decision", "verified"}


def test_planted_fault_is_named_down_to_its_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "wrong-lowering")
    script = write(tmp_path, MODEL)
    done = run("bisect", script, "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    validate("bisect", report)

    assert done.returncode == 1, done.stderr
    assert report.keys() >= FIELDS
    assert (report["stage"], report["node"], report["line"], report["verified"]) == ("lower", "sin_default", 7, True)
    assert report["decision"].startswith("lower 1: wrong-lowering")
    assert "-  %1 = sin(%0) : f32\n+  %1 = cos(%0) : f32" in report["change"]
    monkeypatch.setenv("DYNAMO_FUEL", report["switch"])
    off = run("bisect", script, cwd=tmp_path)
    assert off.returncode == 0, off.stdout


def test_healthy_script_has_no_finding(tmp_path: Path) -> None:
    done = run("bisect", write(tmp_path, MODEL), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "within rounding" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["script.py"]


def test_script_that_fails_by_itself(tmp_path: Path) -> None:
    done = run("bisect", write(tmp_path, "import torch\nraise ValueError('mine')\n"), cwd=tmp_path)

    assert done.returncode == 2
    assert "ValueError: mine" in done.stderr
    assert "CL018" in done.stderr
