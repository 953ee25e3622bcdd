"""`dynamo-debug sanitize`: from an access that memory does not allow to kernel, element and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run, write
from tests.schemas import validate

PROGRAM = """
import torch
import dynamo

def lookup(w, i):
    rows = torch.nn.functional.embedding(i, w)
    return rows * 2

print(dynamo.compile(lookup)(torch.randn(10, 3), torch.tensor([1, {index}])).shape)
"""


@pytest.mark.parametrize("kernels", ["cuda", "cpu"])
def test_an_index_out_of_range_is_named(tmp_path: Path, kernels: str) -> None:
    done = run("sanitize", "--kernels", kernels, "--json", write(tmp_path, PROGRAM.format(index=12)), cwd=tmp_path)
    report = json.loads(done.stdout)
    validate("sanitize", report)
    (fault,) = report["faults"]
    assert (fault["found"], fault["index"], fault["size"], done.returncode) == ("index", 12, 10, 1)
    assert any(":6 embedding" in line for line in fault["lines"])


def test_a_program_without_faults(tmp_path: Path) -> None:
    done = run("sanitize", write(tmp_path, PROGRAM.format(index=3)), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no faults in 1 kernel of 1 graph"


def test_unknown_kernels_are_refused(tmp_path: Path) -> None:
    done = run("sanitize", "--kernels", "gpu", write(tmp_path, PROGRAM.format(index=3)), cwd=tmp_path)
    assert done.returncode == 2 and "cpu or cuda" in done.stderr
