"""`dynamo-debug profile`: causes of recompiles, and fixes that were run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import ROOT, run, write
from tests.schemas import validate

MODEL = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step
"""

SCRIPT = """
import sys
import torch
from model import Net

net = torch.compile(Net(), backend="eager")
for _ in range(4):
    print(sys.argv[1], net(torch.ones(2)).tolist())
"""


def test_fix_in_a_module_of_the_script_is_run_and_the_script_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, MODEL, "model.py")
    done = run("profile", write(tmp_path, SCRIPT), "word", "--verify", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    validate("profile", report)

    assert done.returncode == 0
    assert "word [4.0, 4.0]" in done.stderr
    assert [report["compiles"], report["breaks"]] == [3, 0]
    (found,) = report["recompiles"]
    assert [found[k] for k in ("frame", "cause", "at", "count", "verified", "compiles_after")] == [
        "Net.__call__",
        "number attribute",
        "self.step",
        2,
        True,
        1,
    ]
    assert [found["file"], found["line"], found["changed_line"]] == [str(tmp_path / "model.py"), 12, 11]
    assert "+        self.step = torch.tensor(0)" in found["edit"]
    assert all(row["ns"] > 0 for row in report["guard_cost_ns"])
    assert (tmp_path / "model.py").read_text() == MODEL
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == ["model.py", "script.py"]


def test_failing_script_passes_its_exit_code_on(tmp_path: Path) -> None:
    done = run("profile", write(tmp_path, "raise SystemExit(7)"), "--verify", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (7, "0 compiles in 0.000 s, 0 recompiles of 0 causes, 0 graph breaks\n")


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((ROOT / "repro_corpus" / "churn").glob("*.py")), ids=lambda p: p.stem)
def test_every_churn_program_in_processes_of_its_own(script: Path, tmp_path: Path) -> None:
    report = json.loads(run("profile", str(script), "--verify", "--json", cwd=tmp_path).stdout)

    cause, at, *_, verified = script.read_text().splitlines()[-1].removeprefix("# expect: ").split(" | ")
    (found,) = report["recompiles"]
    assert [found["cause"], found["at"], found["verified"]] == [cause, at, verified == "yes"]
