"""The doors of the environment: what is written at each level, and that the program goes on as it would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from dynamo import config
from dynamo.faults.planting import planted
from minifier.classic import AccuracyError
from minifier.classic.launcher import launch
from minifier.graph.oracle import Setting
from tests.cli.command import environment
from tests.minifier.test_repro import loaded


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.sin(x) * 2).sum()


def called(folder: Path, backend: str, level: int, after: str = "dynamo", fn: Callable[..., Any] = program) -> Any:
    with config.patch(repro_after=after, repro_level=level, repro_dir=str(folder)):
        return dynamo.compile(fn, backend=backend)(torch.rand(4, requires_grad=True))


def scripts(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.py"))


COMPILE = "relu_compile_error_TESTING_ONLY"


def test_level_1_writes_the_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dynamo.BackendError, match="relu found") as error:
        called(tmp_path, COMPILE, 1)

    assert scripts(tmp_path) == ["checkpoints/4.py", "repro.py"]
    assert str(tmp_path / "repro.py") in error.value.cause.__notes__[0]
    assert f"dynamo: The graph was written to {tmp_path / 'repro.py'}." in capsys.readouterr().err
    text = (tmp_path / "repro.py").read_text()
    assert loaded(text, tmp_path / "repro.py").main() == 1
    assert "relu = torch.relu(" in text


def test_launcher_for_a_backend_that_is_made_inside_a_function(tmp_path: Path) -> None:
    reason = "refused"

    def refusing(gm: Any, inputs: Any) -> Any:
        raise RuntimeError(reason)

    with config.patch(repro_after="dynamo", repro_level=2, repro_dir=str(tmp_path)), pytest.raises(dynamo.BackendError):
        dynamo.compile(program, backend=refusing)(torch.rand(4))
    done = subprocess.run(
        [sys.executable, "minifier_launcher.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 4, done.stderr
    assert "Input graph can't be judged: no other process finds the backend" in done.stdout
    assert "; define it and what it needs outside of functions, in a module" in done.stdout


def test_level_2_writes_a_launcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dynamo.BackendError, match="relu found"):
        called(tmp_path, COMPILE, 2)

    assert scripts(tmp_path) == ["minifier_launcher.py"]
    assert f"Minifier script written to {tmp_path / 'minifier_launcher.py'}. Run this script to find" in capsys.readouterr().err


def test_level_3_writes_every_graph_before_it_is_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def two(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        dynamo.graph_break()
        return torch.relu(y)

    with pytest.raises(dynamo.BackendError):
        called(tmp_path, COMPILE, 3, fn=two)

    found = scripts(tmp_path)
    assert [name.rpartition("_")[2] for name in found] == ["nodes.py", "nodes.py", "launcher.py"]
    assert "torch.relu(" in (tmp_path / "minifier_launcher.py").read_text()
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dynamo: Graph")]
    assert len({line.split()[2] for line in said}) == len(said) == 2
    assert "run this script" in said[0]


WRONG = "relu_accuracy_error_TESTING_ONLY"


@pytest.mark.internal_error
@pytest.mark.parametrize("after, backend, fault", [("dynamo", WRONG, ""), ("aot", "inductor", "scaled:op=sin")])
def test_level_4_ends_at_wrong_numbers(tmp_path: Path, after: str, backend: str, fault: str) -> None:
    says = r"Bad accuracy detected. graph [\d./fw]+: result"
    with planted(fault), pytest.raises((dynamo.BackendError, AccuracyError), match=says), config.patch(suppress_errors=True):
        called(tmp_path, backend, 4, after)

    assert scripts(tmp_path) == ["minifier_launcher.py"]


def test_level_4_ends_a_program_that_catches_an_exception_in_eager(tmp_path: Path) -> None:
    def per_example(w: torch.Tensor, xs: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.grad(lambda w, x: (torch.sin(x @ w) ** 2).sum()), in_dims=(None, 0))(w, xs)

    options = config.patch(repro_after="aot", repro_level=4, repro_dir=str(tmp_path), suppress_errors=True)
    with planted("wrong-lowering:op=sin"), pytest.raises(AccuracyError), options:
        dynamo.compile(per_example)(torch.rand(4, 3), torch.rand(5, 2, 4))


def test_what_has_no_form_as_captured_is_told_with_what_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def checkpointed(x: torch.Tensor) -> torch.Tensor:
        return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)

    options = config.patch(repro_after="dynamo", repro_level=2, repro_dir=str(tmp_path), suppress_errors=False)
    with planted("lower-error:op=sin"), pytest.raises(dynamo.BackendError), options:
        dynamo.compile(checkpointed)(torch.rand(4, requires_grad=True))

    assert "can't be written down; REPRO_AFTER=aot looks at its ATen graphs: " in capsys.readouterr().err


@pytest.mark.parametrize("backend", [COMPILE, "relu_runtime_error_TESTING_ONLY"])
def test_level_4_writes_a_launcher_for_what_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str) -> None:
    with pytest.raises((dynamo.BackendError, RuntimeError)), config.patch(suppress_errors=False):
        called(tmp_path, backend, 4)

    assert scripts(tmp_path) == ["minifier_launcher.py"]
    assert f"Minifier script written to {tmp_path / 'minifier_launcher.py'}" in capsys.readouterr().err


@pytest.mark.parametrize("level", [1, 2, 4])
@pytest.mark.parametrize("after", ["dynamo", "aot"])
def test_healthy_program_leaves_no_script(tmp_path: Path, after: str, level: int) -> None:
    x = torch.rand(4, requires_grad=True)
    with config.patch(repro_after=after, repro_level=level, repro_dir=str(tmp_path)):
        dynamo.compile(program, backend="inductor")(x).backward()

    assert scripts(tmp_path) == []
    assert x.grad is not None
    assert torch.allclose(x.grad, torch.cos(x) * 2)


def test_after_aot_writes_forward_and_backward(tmp_path: Path) -> None:
    called(tmp_path, "inductor", 3, "aot").backward()

    assert [name.split("_")[3] for name in scripts(tmp_path)[:2]] == ["bw", "fw"]


@pytest.mark.slow
def test_a_level_alone_means_captured_graphs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_LEVEL", "4")
    monkeypatch.setenv("REPRO_DIR", str(tmp_path))
    with planted("wrong-lowering:op=sin"), pytest.raises(AccuracyError):
        dynamo.compile(program)(torch.rand(4))
    assert scripts(tmp_path) == ["minifier_launcher.py"]
    with planted("wrong-lowering:op=sin"), config.patch(repro_after=""):  # as tools set it for programs that they run
        dynamo.compile(program)(torch.rand(4))


def test_launcher_runs_and_names_the_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(dynamo.BackendError), config.patch(suppress_errors=True):
        called(tmp_path, WRONG, 4)
    path = tmp_path / "minifier_launcher.py"
    module = loaded(path.read_text(), path)
    capsys.readouterr()

    assert isinstance(module.SETTING, Setting)
    with config.patch(repro_after=""):
        assert launch(module.Repro, module.inputs, module.SETTING, "0/0", tmp_path, ["analyze"]) == 1
    assert capsys.readouterr().out.startswith("DIVERGED at relu: result 2: ")


@pytest.mark.parametrize(
    "name, value, says",
    [("REPRO_AFTER", "atto", "expected dynamo or aot, got 'atto'"), ("TORCHDYNAMO_REPRO_LEVEL", "5", "expected 1, 2, 3 or 4, got '5'")],
)
def test_values_that_mean_nothing_are_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(config.ConfigError, match=says):
        config.get(name.removeprefix("TORCHDYNAMO_").lower())


@pytest.mark.parametrize("name, value", [("REPRO_AFTER", "atto"), ("REPRO_LEVEL", "two")])
def test_such_a_value_is_no_failure_of_a_backend(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("REPRO_AFTER", "dynamo")
    monkeypatch.setenv(name, value)
    with pytest.raises(config.ConfigError, match=f"{name}: expected .* got '{value}'"):
        dynamo.compile(program, backend="eager")


@pytest.mark.internal_error
@pytest.mark.parametrize("after, level", [("dynamo", 1), ("dynamo", 2), ("aot", 2), ("dynamo", 3), ("aot", 3), ("dynamo", 4)])
def test_a_folder_that_cannot_be_written_to_changes_nothing(capsys: pytest.CaptureFixture[str], after: str, level: int) -> None:
    nowhere = Path("/proc/nowhere")
    fault = "scaled:op=sin" if level == 4 else "lower-error:op=sin"
    says = "Bad accuracy detected" if level == 4 else "lower: sin"
    with planted(fault), pytest.raises((dynamo.BackendError, AccuracyError), match=says), config.patch(suppress_errors=False):
        called(nowhere, "inductor", level, after)

    assert "can't be written to /proc/nowhere: No such file or directory; set REPRO_DIR" in capsys.readouterr().err


def test_long_names_of_variables_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_LEVEL", "3")
    assert config.repro_level == 3
    monkeypatch.setenv("TORCHDYNAMO_REPRO_LEVEL", "1")
    assert config.repro_level == 1
    assert {r.name: r.env for r in config.rows()}["repro_level"] == "TORCHDYNAMO_REPRO_LEVEL"


@pytest.mark.slow
def test_plain_script_with_the_environment_ends_at_a_repro(tmp_path: Path) -> None:
    called = "dynamo.compile(lambda x: torch.relu(x.sin()) + 1, backend='relu_runtime_error_TESTING_ONLY')(torch.rand(3))"
    (tmp_path / "script.py").write_text(f"import torch, dynamo\n{called}\n")
    doors = {**environment(), "REPRO_AFTER": "dynamo", "REPRO_LEVEL": "2", "REPRO_DIR": str(tmp_path / "out")}
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=doors, capture_output=True, timeout=300, check=True)
    done = subprocess.run(
        [sys.executable, "out/minifier_launcher.py"], cwd=tmp_path, env=doors, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 1
    assert "Wrote minimal repro out to" in done.stdout
    assert "1 nodes, fails in 3 of 3 runs" in done.stdout
    assert "relu = torch.relu(" in (tmp_path / "out" / "repro.py").read_text()


OWN = """
import torch
import dynamo


def refuses(gm, inputs):
    raise LookupError("not today")


dynamo.compile(lambda x: x.sin() * 2, backend=refuses)(torch.ones(3))
"""


def test_launcher_has_the_backend_that_the_script_defines(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OWN)
    doors = {**environment(), "REPRO_AFTER": "dynamo", "REPRO_LEVEL": "2", "REPRO_DIR": str(tmp_path / "out")}
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=doors, capture_output=True, timeout=300, check=False)
    command = [sys.executable, str(tmp_path / "out" / "minifier_launcher.py"), "run"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)

    assert (tmp_path / "out" / "script_backend.py").read_text().startswith("def refuses(gm, inputs):")
    assert done.returncode == 1 and "LookupError" in done.stdout, done.stdout + done.stderr
