"""The example scripts, through the command, on the real compiler."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dynamo.trace import load
from dynamo.trace.model import Run
from tests.cli.command import ROOT, run, write

EXAMPLES = ROOT / "repro_corpus" / "examples"


@dataclass(frozen=True)
class Expected:
    """What a report on an example must say. `breaks` counts ids; `printed` is a line the script itself prints."""

    graphs: int
    printed: str
    breaks: dict[str, int] = field(default_factory=dict)
    recompiles: int = 0
    args: tuple[str, ...] = ()


CASES = {
    "graph_break": Expected(4, "bar ", {"DD001": 1}),
    "module": Expected(1, "torch.Size([2, 16])"),
    "recompiles": Expected(6, "5 torch.Size([5])", recompiles=5),
    "training": Expected(1, "step 1: loss", args=("2",)),
    "disable": Expected(3, "logged mean", {"DD021": 2}),
}


def explained(name: str, *args: str, cwd: Path, backend: str = "") -> tuple[dict[str, Any], str]:
    done = run("explain", "--json", "--backend", backend, str(EXAMPLES / f"{name}.py"), *args, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("name", CASES)
def test_examples(name: str, tmp_path: Path) -> None:
    expected = CASES[name]
    value, stderr = explained(name, *expected.args, cwd=tmp_path, backend="eager")

    assert expected.printed in stderr
    assert Counter(b["id"] for b in value["breaks"]) == expected.breaks
    assert len(value["graphs"]) == expected.graphs
    assert len(value["recompiles"]) == expected.recompiles
    assert value["notes"] == []
    assert value["problems"] == []


def test_old_style_scripts_run_to_their_end(tmp_path: Path) -> None:
    value, stderr = explained("old_style", cwd=tmp_path)

    assert "custom backend called with" in stderr
    assert "nopython: graph break under fullgraph=True" in stderr
    assert "Dynamo produced 2 graphs with 1 graph breaks" in stderr
    assert "exported GraphModule" in stderr
    assert re.search(r"^'foo' \(.*old_style.py:20\) +2 +\S+: tensor L\['x'\]: size at dim 0: expected 3, got 4$", stderr, re.MULTILINE)
    assert stderr.rstrip().endswith("True\nTrue")
    assert len(value["graphs"]) >= 3


def test_later_stages_are_told_apart_from_what_was_captured(tmp_path: Path) -> None:
    value = json.loads(run("explain", "--json", "--backend", "aot_eager", str(EXAMPLES / "graph_break.py"), cwd=tmp_path).stdout)

    assert len(value["graphs"]) == 4
    assert {g["stage"] for g in value["graphs"]} == {"capture"}
    assert "0/0.fw" in [g["id"] for g in value["later_graphs"]]


def test_breaks_and_guards_point_at_user_lines(tmp_path: Path) -> None:
    value, _ = explained("graph_break", cwd=tmp_path, backend="eager")
    script = EXAMPLES / "graph_break.py"
    lines = script.read_text().splitlines()
    broke = value["breaks"][0]

    assert broke["file"] == str(script)
    assert lines[broke["line"] - 1].strip() == "if b.sum() < 0:"
    assert lines[broke["line"] - 1][broke["col"] : broke["end_col"]].startswith("b.sum()")
    assert broke["hint"]
    read = {g["source"]: lines[g["line"] - 1].strip() for g in value["guards"] if g["file"] == str(script)}
    assert read["L['a']"] == "x = a / (torch.abs(a) + 1)"
    assert read["L['x']"] in ("a = torch.sin(x)", "return x * b")
    assert set(value["times"]) >= {"bytecode", "capture", "backend", "guards", "codegen", "install"}


def test_fail_on_break_on_the_real_compiler(tmp_path: Path) -> None:
    assert run("explain", "--fail-on-break", str(EXAMPLES / "graph_break.py"), cwd=tmp_path).returncode == 1
    assert run("explain", "--fail-on-break", str(EXAMPLES / "module.py"), cwd=tmp_path).returncode == 0


BREAKING = """\
import torch
@torch.compile(fullgraph=True)
def f(x):
    if x.sum() > 0:
        return x
    return -x

f(torch.ones(2))
"""
RAISING = """\
import torch
@torch.compile
def f(x):
    return x + helper(x)

def helper(x):
    raise ValueError(f'bad {x.shape[0]}')

f(torch.ones(2))
"""


def test_a_break_under_fullgraph_ends_the_script_with_its_own_traceback(tmp_path: Path) -> None:
    write(tmp_path, BREAKING)
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "torch._dynamo.exc.Unsupported: graph break under fullgraph=True" in done.stderr
    assert 'script.py", line 8, in <module>' in done.stderr
    assert str(ROOT / "dynamo") not in done.stderr
    assert str(ROOT / "tui") not in done.stderr
    assert "raised inside dynamo-debug" not in done.stderr


def test_an_exception_in_compiled_code_shows_user_frames_only(tmp_path: Path) -> None:
    write(tmp_path, RAISING)
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.returncode == 1
    assert "ValueError: bad 2" in done.stderr
    assert "line 9, in <module>" in done.stderr
    assert "line 7, in helper" in done.stderr
    assert str(ROOT / "dynamo") not in done.stderr


def test_an_unknown_backend_is_refused_before_the_run(tmp_path: Path) -> None:
    done = run("explain", "--backend", "eagre", str(EXAMPLES / "module.py"), cwd=tmp_path)

    assert done.returncode == 2
    assert "error[CL012]: eagre: no such backend; did you mean eager?" in done.stderr


def test_a_record_of_the_real_compiler_reads_back(tmp_path: Path) -> None:
    done = run("trace", "--backend", "eager", str(EXAMPLES / "graph_break.py"), "-o", "rec", cwd=tmp_path)
    record = load(tmp_path / "rec")
    model = Run(record.events)

    assert done.returncode == 0
    assert record.problems == []
    assert [model.status(c).word for c in model.compiles.values()].count("break") == 1
    assert all(n.file for g in model.graphs for n in g.nodes if n.op.startswith("call_"))


def test_verify_and_doctor(tmp_path: Path) -> None:
    verified = run("verify", cwd=tmp_path)
    checks = json.loads(run("verify", "--json", cwd=tmp_path).stdout)
    facts = json.loads(run("doctor", "--json", cwd=tmp_path).stdout)
    text = run("doctor", cwd=tmp_path)

    assert verified.returncode == 0, verified.stdout
    assert [c["check"] for c in checks if not c["ok"]] == []
    assert set(facts) == {"versions", "compiler", "devices", "torch", "tensors", "machine", "config", "terminal"}
    assert facts["config"]["recompile_limit"]["source"] == "default"
    assert "no terminal" in facts["terminal"]["stdout"]
    assert text.returncode == 0
    assert "recompile_limit" in text.stdout
    assert "l2 cache" in text.stdout


def test_a_failing_check_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/bin/false")
    done = run("verify", cwd=tmp_path)

    assert done.returncode == 3
    assert "failed  c compiler" in done.stdout
