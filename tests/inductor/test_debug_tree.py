"""The debug tree of real compiles: its scripts run, and say what the compiled program says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo import config
from inductor.targets.cpu.c.unit import PRELUDE
from tests.cli.command import environment, run, write


class WithBuffer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 16)
        self.register_buffer("scale", torch.full((16,), 0.5))
        self.steps: int = 3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * self.scale + self.steps


class BatchNorm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(self.norm(x), 2)


def constants(x: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor([0.5, float("inf"), -1.0, 2.0])
    table = torch.tensor([[i * j % 7 for i in range(10)] for j in range(10)])
    return x * weights + table[2:6, 4]


def in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    x[1:3] = y
    return x.sum(0)


def embedding(w: torch.Tensor, i: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    return torch.where(keep, F.embedding(i, w), 0.0).mean(0)


def whole(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x * n).cumsum(1).to(torch.bfloat16)


def views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.t()[1:], x.expand(3, 4, 6).exp()


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "parameters, buffers, ints": (WithBuffer, lambda: [torch.randn(4, 8)]),
    "state that is updated": (BatchNorm, lambda: [torch.randn(2, 3, 8, 8, requires_grad=True)]),
    "constants": (lambda: constants, lambda: [torch.randn(4, 4)]),
    "dropout": (lambda: lambda x: F.dropout(x, 0.4).tanh(), lambda: [torch.randn(8, 40, requires_grad=True)]),
    "in place": (lambda: in_place, lambda: [torch.randn(6, 10), torch.randn(10)]),
    "embedding": (lambda: embedding, lambda: [torch.randn(5, 32, requires_grad=True), torch.tensor([4, 0, 1]), torch.randn(3, 32) > 0]),
    "dtypes": (lambda: whole, lambda: [torch.randn(6, 10).half(), 3]),
    "views and strides": (lambda: views, lambda: [torch.randn(6, 4).t()]),
    "loss": (lambda: F.cross_entropy, lambda: [torch.randn(6, 10, requires_grad=True), torch.randint(0, 10, (6,))]),
}


def folders(tmp_path: Path, name: str) -> list[Path]:
    """Compile and differentiate one program; the folders of its graphs."""
    torch.manual_seed(0)
    dynamo.reset()
    make, inputs = PROGRAMS[name]
    with config.patch(compile_debug=True, debug_dir=str(tmp_path)):
        out = dynamo.compile(make(), backend="inductor")(*inputs())
    for value in out if isinstance(out, tuple) else (out,):
        if value.requires_grad:
            value.sum().backward()
    return sorted(tmp_path.glob("torch_compile_debug/run_*/torchinductor/model__*"))


def run_script(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", [str(path)])
    with config.patch(suppress_errors=True), pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_run_by_themselves(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = folders(tmp_path, name)

    assert len(found) == (2 if any(isinstance(x, torch.Tensor) and x.requires_grad for x in PROGRAMS[name][1]()) or name[0] == "p" else 1)
    for folder in found:
        assert run_script(folder / "fx_graph_runnable.py", monkeypatch) == 0, capsys.readouterr().out
        assert re.search(r"ok: \d+ values equal eager", capsys.readouterr().out)


@pytest.mark.parametrize("name", PROGRAMS)
def test_output_code_runs_and_agrees_with_the_graph(tmp_path: Path, name: str) -> None:
    found = folders(tmp_path, name)

    assert found
    for folder in found:
        graph = runpy.run_path(str(folder / "fx_graph_runnable.py"))
        host = runpy.run_path(str(folder / "output_code.py"))
        expected, (high, positive) = graph["run_eager"](graph["Repro"](), 0)
        args = graph["inputs"](0, high, positive)
        torch.manual_seed(0)
        results = [*host["call"](args), *args]

        assert [problem for f, e in zip(results, expected, strict=True) if (problem := graph["difference"](f, e)) is not None] == []


def test_the_other_files_hold_what_they_say(tmp_path: Path) -> None:
    (forward, backward) = reversed(folders(tmp_path, "parameters, buffers, ints"))
    code = (forward / "output_code.c").read_text()

    assert "forward" in forward.name
    assert "test_debug_tree.py:" in code.replace(PRELUDE, "")
    assert "nest n" in (forward / "ir_pre_fusion.txt").read_text()
    assert "kernel k" in (forward / "ir_post_fusion.txt").read_text()
    assert "in WithBuffer.forward, code: return torch.relu(" in (forward / "fx_graph_readable.py").read_text()
    assert "(backward)" in (backward / "fx_graph_transformed.py").read_text()
    compile((forward / "fx_graph_readable.py").read_text(), "readable", "exec")
    assert "digraph" in (forward / "graph_diagram.dot").read_text()


def test_a_wrong_result_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (folder,) = folders(tmp_path, "constants")
    path = folder / "fx_graph_runnable.py"
    path.write_text(path.read_text().replace("    found = outcome(", "    expected[0] = expected[0] + 1\n    found = outcome("))

    assert run_script(path, monkeypatch) == 1
    assert re.fullmatch(r"result 0: largest difference 1\n1 of \d+ values differ\n", capsys.readouterr().out)


SCRIPT = """import torch
import dynamo
f = dynamo.compile(lambda x: torch.softmax(x.sin(), -1), backend="inductor")
f(torch.randn(4, 8))
"""


def test_the_environment_switches_it_on_and_records_give_the_same_tree(tmp_path: Path) -> None:
    script = tmp_path / write(tmp_path, SCRIPT)
    env = {**environment(), "TORCH_COMPILE_DEBUG": "1", "TORCHINDUCTOR_TRACE": "1", "DYNAMO_CACHE_DIR": str(tmp_path / "cache")}
    env |= {"DYNAMO_LOGS": "output_code"}
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    live = {p.name: p for p in tmp_path.glob("torch_compile_debug/run_*/torchinductor/model__0_inference_0.0/*")}
    run("trace", "script.py", "-o", "rec", cwd=tmp_path)
    stored = Path(run("export", "rec", "--to", "tree", "-o", "out", cwd=tmp_path).stdout.strip())
    again = {p.name: p for p in (tmp_path / stored).glob("torchinductor/model__0_inference_0.0/*")}

    assert done.stdout == ""
    assert "model__0_inference_0 debug trace: " in done.stderr
    assert "output_code: kernels: 0/0.c (c)" in done.stderr
    assert set(live) == set(again) >= {"fx_graph_runnable.py", "output_code.c", "graph_diagram.dot"}
    assert live["output_code.c"].read_text() == again["output_code.c"].read_text()
    assert len(list((tmp_path / "cache" / "debug").glob("*/*.debug/fx_graph.py"))) == 1
    command = [sys.executable, str(live["fx_graph_runnable.py"])]
    repro = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (repro.returncode, repro.stdout) == (0, "ok: 2 values equal eager\n")
