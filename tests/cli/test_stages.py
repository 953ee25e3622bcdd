"""`explain --stage` and `explain --decisions` on a real compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dynamo.trace.stages import BY_NAME
from tests.cli.command import run, write

SCRIPT = """import torch
import dynamo


@dynamo.compile(backend="inductor")
def model(x, w):
    y = torch.relu(x @ w)
    return torch.softmax(y, -1).sum()


model(torch.randn(4, 8), torch.randn(8, 16, requires_grad=True)).backward()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the record of one run."""
    folder = tmp_path_factory.mktemp("stages")
    write(folder, SCRIPT)
    assert run("trace", "script.py", "-o", "rec", cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize(
    "stage, texts",
    [
        ("bytecode", ["==== 0/0  bytecode", "LOAD_FAST"]),
        ("capture", ["==== 0/0  captured graph", "torch.softmax", "script.py:7"]),
        ("guards", ["L['x']", "Tensor float32[4, 8]", "script.py:7"]),
        ("codegen", ["entry function", "def entry_model"]),
        ("aot", ["==== 0/0.aot  joint graph", "aten._softmax_backward_data.default", "(backward)"]),
        ("joint", ["==== 0/0.aot  joint graph"]),
        ("partition", ["==== 0/0.fw  forward graph", "==== 0/0.bw  backward graph", "==== decisions", "recompute"]),
        ("passes", ["==== 0/0.fw.passes  after graph passes", "==== 0/0.bw.passes"]),
        ("lower", ["loop IR before fusion", "nest n", "how operators are lowered"]),
        ("schedule", ["loop IR after fusion", "kernel k", "fuse", "refused"]),
        ("kernels", ["C kernels", "/* script.py:8 softmax", "host program as Python", "def call(args):"]),
        ("build", ["build command", "-shared"]),
    ],
)
def test_every_stage_shows_what_it_made(folder: Path, stage: str, texts: list[str]) -> None:
    done = run("explain", "--stage", stage, "rec", cwd=folder)

    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in texts if text not in done.stdout] == []


def test_json_of_a_stage(folder: Path) -> None:
    value = json.loads(run("explain", "--stage", "kernels", "--graph", "0/0.bw", "--json", "rec", cwd=folder).stdout)

    assert (value["stage"], value["about"]) == ("kernels", BY_NAME["kernels"].doc)
    assert [(a["graph_id"], a["language"]) for a in value["artefacts"]] == [("0/0.bw", "c"), ("0/0.bw", "python")]
    assert set(value) == {"stage", "about", "artefacts", "decisions", "times"}


def test_an_unknown_stage_lists_the_known_ones(folder: Path) -> None:
    done = run("explain", "--stage", "lowering", "nowhere.py", cwd=folder)

    assert done.returncode == 2
    assert f"error[CL013]: lowering: no such stage; did you mean lower? (stages: {', '.join(BY_NAME)})" in done.stderr
    assert "did you mean kernels?" in run("explain", "--stage", "kernel", "rec", cwd=folder).stderr


def test_an_unknown_graph_beside_a_stage(folder: Path) -> None:
    done = run("explain", "--stage", "aot", "--graph", "0/7", "rec", cwd=folder)

    assert done.returncode == 2
    assert "error[CL006]: 0/7: no such graph" in done.stderr


def test_decisions(folder: Path) -> None:
    lines = run("explain", "--decisions", "--graph", "0/0.bw", "rec", cwd=folder).stdout.splitlines()
    rows = json.loads(run("explain", "--decisions", "--json", "rec", cwd=folder).stdout)

    assert lines
    assert all("0/0.bw" in line and ("taken" in line or "refused" in line) for line in lines)
    assert all(d["reason"] for d in rows)
    numbers = [d["number"] for d in rows if d["number"]]
    assert numbers == sorted(numbers)
    assert any(d["stage"] == "fuse" and not d["taken"] and d["number"] == 0 for d in rows)


def test_a_script_is_run_like_a_record(folder: Path) -> None:
    done = run("explain", "--stage", "kernels", "script.py", cwd=folder)

    assert done.returncode == 0
    assert "/* script.py:7 relu" in done.stdout
