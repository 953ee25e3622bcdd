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


def test_a_script_that_ends_with_a_code_of_its_own_is_bisected(tmp_path: Path) -> None:
    text = "import sys, torch\ntorch.compile(lambda x: x.sin())(torch.ones(3))\nsys.exit('done')\n"

    done = run("bisect", write(tmp_path, text), cwd=tmp_path)

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "graph 0/0: within rounding (confidence 1)"), done.stderr
    assert "the script ends with 1 for reasons of its own" in done.stderr


LIBRARY = """
import torch

def doubles(gm, inputs):
    for node in [n for n in gm.graph.nodes if "linear" in str(n.target)]:
        with gm.graph.inserting_after(node):
            double = gm.graph.call_function(torch.add, (node, node))
        node.replace_all_uses_with(double, lambda user: user is not double)
    gm.recompile()
    return gm.forward

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
compiled = torch.compile(net, backend=doubles)
with torch.no_grad():
    compiled(torch.ones(2, 3))
"""


def test_code_of_a_library_is_at_the_line_that_calls_it(tmp_path: Path) -> None:
    done = run("bisect", "--json", write(tmp_path, LIBRARY), cwd=tmp_path)

    found = json.loads(done.stdout)
    assert (done.returncode, found["verdict"]) == (1, "worse than eager"), done.stderr
    assert (found["node"], Path(found["file"]).name, found["line"]) == ("linear", "script.py", 16)
