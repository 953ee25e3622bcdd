"""How `dynamo-debug bisect` ends: exit codes of what comes and goes, and scripts that capture itself gets wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minifier.bisect.capture import _seen
from minifier.bisect.front import Found, ScriptFailed, Wish
from minifier.bisect.front import bisect as bisected
from minifier.bisect.report import Report, as_text
from tui.commands.bisect import bisect
from tui.exits import Exit

BACKEND = """
import torch
import dynamo

compiles = 0

def backend(gm, inputs):
    global compiles
    compiles += 1
    is_wrong = compiles in {wrong}
    return lambda *values: [r + is_wrong for r in gm.forward(*values)]

print(dynamo.compile(torch.sin, backend=backend)(torch.ones(30)))
"""


@pytest.mark.parametrize(
    "wrong, code, verdict, rate", [("{1}", Exit.NOT_REPRODUCED, "not reproduced", 0.2), ("{1, 2, 4}", Exit.FLAKY, "flaky", 0.6)]
)
def test_what_comes_and_goes_has_its_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], wrong: str, code: Exit, verdict: str, rate: float
) -> None:
    script = tmp_path / "script.py"
    script.write_text(BACKEND.format(wrong=wrong))

    assert bisect(script=str(script), as_json=True) == code
    answer: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert (answer["verdict"], answer["rate"], answer["decision"]) == (verdict, rate, "")


CAPTURED = """
import torch
import dynamo

def model(x, y):
    z = torch.tanh(x)
    return z - y

x, y = torch.randn(5), torch.randn(5)
torch.testing.assert_close(dynamo.compile(model)(x, y), model(x, y))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wrong_capture_is_named_with_its_node_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(CAPTURED)
    monkeypatch.setenv("DYNAMO_FAULT", "wrong-capture")

    found = bisected(Wish(str(script), draws=1), lambda line: None)
    report = found.first

    assert found.to_json()["graphs"] == len(found.reports) - 1
    assert (report.verdict, report.stage, report.verified) == ("capture differs from eager", "capture", True)
    assert report.decision.endswith(": wrong-capture sub")
    assert (Path(report.file).name, report.line) == ("script.py", 7)


LAUNCHING = """
import subprocess, sys
from pathlib import Path
import torch
print(torch.compile(torch.sin)(torch.ones(3)))
sys.exit(subprocess.run([sys.executable, Path(__file__).with_name("worker.py")]).returncode)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_wrong_capture_in_a_process_that_the_script_starts_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "script.py"
    script.write_text(LAUNCHING)
    (tmp_path / "worker.py").write_text(CAPTURED)
    monkeypatch.setenv("DYNAMO_FAULT", "wrong-capture")

    report = bisected(Wish(str(script), draws=1), lambda line: None).first

    assert (report.verdict, report.stage, report.verified) == ("capture differs from eager", "capture", True)
    assert report.decision.endswith(": wrong-capture sub")
    assert (Path(report.file).name, report.line) == ("worker.py", 7)


def test_decisions_of_several_processes_are_told_by_number() -> None:
    own = {"decided": [(1, "inline", "a", True), (2, "capture", "b", True)], "nodes": [["0/0", "x", "sin", "s.py", 1]], "guards": []}
    other = {"decided": [(1, "inline", "a", True), (2, "capture", "c", True), (3, "fuse", "d", True)], "nodes": [], "guards": []}
    seen = _seen(1, [other, own])

    assert [(d.number, d.what) for d in seen.decided] == [(1, "a"), (2, "b or, in another process, c"), (3, "d")]
    assert seen.nodes == (("0/0", "x", "sin", "s.py", 1),)
    assert _seen(3, []).decided == ()


def test_a_report_on_capture_is_none_on_a_graph() -> None:
    wrong, whole = Report("value", 1.0, "0/0"), Report("capture differs from eager", 1.0, "1/0", stage="capture")

    assert Found([whole]).to_json()["graphs"] == 0
    told = Found([Report("within rounding", 1.0, "0/0"), wrong, replace(wrong, graph="0/1"), whole], graphs=3).to_json()
    assert (told["graphs"], told["other_findings"]) == (3, ["0/1"])


def test_script_that_fails_without_a_compiler_is_no_finding(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(3)\n")

    with pytest.raises(ScriptFailed, match="ended with 3"):
        bisected(Wish(str(script)), lambda line: None)


def test_graph_whose_kernels_cannot_be_built_is_not_within_rounding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of the script goes on without them, in eager."""
    script = tmp_path / "script.py"
    script.write_text("import torch\nimport dynamo\ndynamo.compile(lambda x: torch.tanh(x) + 1)(torch.rand(4))\n")
    monkeypatch.setenv("DYNAMO_FAULT", "bad-text:op=tanh")

    report = bisected(Wish(str(script), draws=1), lambda line: None).first

    assert report.verdict == "compile error"
    assert re.fullmatch("BuildError: the C compiler failed with exit code 1: .undeclared. undeclared.* \\[DI001]", report.text)
    assert "minify" in as_text(report)
