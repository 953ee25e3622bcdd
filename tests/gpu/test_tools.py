"""The tools on programs of a GPU: a candidate that loses the device costs its process, wrong numbers are followed on either device."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]

ASSERTING = """
import torch
import dynamo
from tests.gpu.losing import asserts

def model(x, w):
    y = (x @ w).sin() + x
    z = torch.relu(y * 2).tanh()
    return (z - y).sum(0), z.exp()

x, w = torch.randn(8, 8, device="cuda"), torch.randn(8, 8, device="cuda")
print(dynamo.compile(model, backend=asserts)(x, w))
"""

WAVES = """
import torch
import dynamo

def model(x):
    return torch.sin(x).mul(2.0).sum(-1) + x.abs().amax(-1)

x = torch.randn(16, 300, device="{device}")
print(dynamo.compile(model)(x).sum())
"""


def told(folder: Path, text: str, command: str, *more: str, **environment: str) -> tuple[int, dict[str, Any]]:
    """(exit code, what `--json` gave) of a command on a script."""
    script = folder / "script.py"
    script.write_text(text)
    whole = [sys.executable, "-m", "tui.main", command, *more, "--json", str(script)]
    path = os.pathsep.join([os.getcwd(), *sys.path])
    given = {**os.environ, "PYTHONPATH": path, "DYNAMO_CACHE_DIR": str(folder / "cache"), **environment}
    ended = subprocess.run(whole, cwd=folder, env=given, capture_output=True, text=True, timeout=180)
    print(ended.stderr[-4000:])
    print(ended.stdout[-4000:], flush=True)
    return ended.returncode, json.loads(ended.stdout)


def test_a_lost_device_costs_one_process(tmp_path: Path) -> None:
    code, report = told(tmp_path, ASSERTING, "minify", "--jobs", "4", "-o", str(tmp_path / "out"))
    assert (code, report["status"], report["op_nodes"]) == (1, "reproduced", 2), report
    assert "device-side assert" in str(report["signature"]), report
    assert report["reproduction_rate"] == 1.0


LOOKUP = """
import torch
import dynamo

def lookup(w, i):
    return torch.nn.functional.embedding(i, w) * 2

w, i = torch.randn(10, 3, device="cuda"), torch.tensor([1, {index}], device="cuda")
try:
    print(dynamo.compile(lookup)(w, i).sum())
except IndexError:
    torch.cuda.synchronize()
    print("the device is there")
"""


@pytest.mark.parametrize("index, count", [(3, 0), (12, 1)])
def test_the_sanitizer_leaves_the_device(tmp_path: Path, index: int, count: int) -> None:
    code, report = told(tmp_path, LOOKUP.format(index=index), "sanitize")
    assert (code, report["exit"], len(report["faults"])) == (count, 0, count), report
    assert all((f["found"], f["index"], f["size"]) == ("index", 12, 10) for f in report["faults"])


@pytest.mark.parametrize("device, other", [("cuda", ""), ("cuda", "cpu"), ("cpu", "cuda")])
def test_wrong_numbers_are_followed_on_either_device(tmp_path: Path, device: str, other: str) -> None:
    more = ("--device", other) if other else ()
    code, report = told(tmp_path, WAVES.format(device=device), "bisect", "--draws", "1", *more, DYNAMO_FAULT="scaled")
    assert code == 1 and report["stage"] == "lower", report
    assert report["op"].endswith("sin.default") and report["line"] == 6, report
    assert report["verified"] and report["decision"].endswith("scaled sin_default"), report


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_rounding_is_no_finding(tmp_path: Path, device: str) -> None:
    code, report = told(tmp_path, WAVES.format(device="cuda"), "bisect", "--draws", "2", "--device", device)
    assert (code, report["verdict"]) == (0, "within rounding"), report
