"""A debugger entered in compiled code stands in the program's own frame, and steps on in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dynamo
from tests.cli.command import ROOT

PROGRAM = """\
import pdb
import sys
import torch
import dynamo

def f(x):
    unused = x.sum()
    y = x + 1
    {stop}
    for k in range(2):
        y = y * 2 + k
    return y

if sys.argv[1] == "compiled":
    f = dynamo.compile(f, backend="eager")
print(f(torch.ones(2)))
print(f(torch.ones(2)))
"""
COMMANDS = "p x, y, unused\nn\nn\nn\np k, y\n!y = y + 1\nw\nr\np y\nc\np x\nc\n"


def _said(program: Path, how: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, program, how], input=COMMANDS, env=env, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("stop", ["breakpoint()", "pdb.set_trace()"])
def test_steps_as_in_eager(stop: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(stop=stop))
    assert _said(program, "compiled") == _said(program, "eager")


def _stops(x: torch.Tensor) -> torch.Tensor:
    unused = x.sum()  # noqa: F841  # what a debugger asks for is not known before
    y = x + 1
    breakpoint()
    return y * 2


def test_a_hook_sees_the_frame_and_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def hook() -> None:
        frame = sys._getframe(1)
        assert frame.f_back is not None
        names = sorted(n for n in frame.f_locals if not n.startswith("___"))
        seen.append((frame.f_code.co_name, frame.f_lineno, names, frame.f_back.f_code.co_name))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    _stops(torch.ones(2))
    compiled = dynamo.compile(_stops, backend="eager")
    compiled(torch.ones(2)), compiled(torch.ones(2))
    assert seen[1:] == [seen[0], seen[0]]


def test_fullgraph_refuses() -> None:
    with pytest.raises(dynamo.GraphBreakError, match=r"breakpoint.*\[DD033\]"):
        dynamo.compile(_stops, backend="eager", fullgraph=True)(torch.ones(2))
