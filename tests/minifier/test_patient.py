"""Torch's own compiler as the patient: the bugs that its test suite injects, in scripts that know nothing of this package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, run, write

SCRIPT = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_%s_bug_TESTING_ONLY = %r

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(6, 5)
        self.b = torch.nn.Linear(5, 4)

    def forward(self, x):
        x = torch.nn.functional.dropout(self.a(x), 0.5)
        return torch.tanh(self.b(torch.%s(x.abs()) * 2)).sum(0)

torch.manual_seed(0)
net = torch.compile(Net(), backend=%r)
try:
    print(net(torch.randn(3, 6)).sum())
except RuntimeError as e:
    print("fails")
"""

# What the patient says of the graphs of a script, in the process that recorded it.
JUDGED = """
import json, runpy, sys
from pathlib import Path
import torch
from dynamo.peer import patient
from minifier.graph.oracle import judge
from minifier.recorder import Recorder
from minifier.recordings import recorded

folder = Path(sys.argv[1])
patient.stand_between(Recorder(folder, "torch", "dynamo", "").taken, "dynamo")
runpy.run_path("script.py", run_name="__main__")
(graph,) = recorded(folder)
setting = graph.setting("torch", "dynamo", False, str(folder / "values"))
outcome = judge(graph.graph, setting)
said = {"name": graph.name, "problem": graph.problem, "options": graph.options, "backend": graph.backend, "verdict": outcome.verdict.value}
print(json.dumps({**said, "names": [*outcome.signature.exceptions], "sources": sorted({n.source for n in graph.graph.nodes})}))
"""


def test_graph_of_an_unchanged_script_fails_in_torchs_compiler(tmp_path: Path) -> None:
    write(tmp_path, SCRIPT % ("relu", "compile_error", "relu", "relu_compile_error_TESTING_ONLY"))
    command = [sys.executable, "-c", JUDGED, str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])

    assert (said["name"], said["problem"], said["backend"]) == ("0/0", "", "relu_compile_error_TESTING_ONLY")
    assert said["options"] == {"torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY": "compile_error"}
    assert said["verdict"] == "interesting"
    assert said["names"][0].endswith("BackendCompilerFailed")
    assert all(source.startswith("script.py:") or "/script.py:" in source for source in said["sources"])


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "function, bug, operation, kind",
    [
        ("relu", "compile_error", "relu", "exception"),
        ("relu", "runtime_error", "relu", "exception"),
        ("relu", "accuracy", "relu", "accuracy"),
        ("log1p", "accuracy", "log1p", "accuracy"),
    ],
)
def test_injected_bugs_end_at_one_operation(tmp_path: Path, function: str, bug: str, operation: str, kind: str) -> None:
    script = write(tmp_path, SCRIPT % (function, bug, operation, "inductor"))
    wish = ("minify", script, "--engine", "torch", "--json", "--jobs", "1", *(["--accuracy"] if kind == "accuracy" else []))
    done = run(*wish, cwd=tmp_path, timeout=900)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)

    assert [report[k] for k in ("status", "stage", "op_nodes", "one_minimal")] == ["reproduced", "codegen", 1, True]
    assert report["signature"]["kind"] == kind
    assert f"torch.{operation}(" in (tmp_path / report["repro"]).read_text()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_healthy_script_under_torch_yields_no_repro(tmp_path: Path) -> None:
    script = write(tmp_path, SCRIPT % ("relu", None, "relu", "inductor"))
    done = run("minify", script, "--engine", "torch", "--accuracy", cwd=tmp_path, timeout=900)

    assert (done.returncode, done.stdout) == (0, "nothing fails\n")
