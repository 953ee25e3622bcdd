"""The command: few programs without a fault, options that make no sense, and the whole way from a planted fault to a pytest file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from minifier.engine import Kind, Signature
from minifier.fuzz.fuzzing import next_folder
from minifier.fuzz.types import Cluster, Drawn, Failure, Summary, Wish
from tests.cli.command import run
from tui.commands.fuzz import as_text

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "fuzz.json"


def validate(value: object) -> None:
    jsonschema.validate(value, json.loads(SCHEMA.read_text()), cls=jsonschema.Draft202012Validator)


def test_a_healthy_backend(tmp_path: Path) -> None:
    done = run("fuzz", "--programs", "3", "--kinds", "calls", "--backend", "eager", "--jobs", "1", "--json", cwd=tmp_path, timeout=400)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    validate(told)
    assert (told["outcomes"]["failed"], told["clusters"], told["next"]) == (0, [], 3)
    assert 1 <= told["programs"] <= 3
    assert [p.name for p in tmp_path.iterdir()] in ([], ["fuzzed"])


def test_a_search_leaves_what_an_earlier_one_found(tmp_path: Path) -> None:
    assert next_folder(tmp_path / "failures") == tmp_path / "failures" / "1"
    for name in ("2", "10", "notes"):
        (tmp_path / name).mkdir()

    assert next_folder(tmp_path) == tmp_path / "11"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--time", "soon"), "error[CL035]: --time soon: not a time"),
        (("--kinds", "tensor"), "error[CL035]: --kinds tensor: unknown; did you mean tensors?"),
        (("--kinds", "calls", "--ops", "sin"), "error[CL035]: --ops: programs of kind calls"),
        (("--backend", "inductr"), "error[CL012]: inductr: no such backend; did you mean inductor?"),
        (("--engine", "jax"), "error[CL010]: --engine jax"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], error: str, tmp_path: Path) -> None:
    done = run("fuzz", *options, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert error in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_summary_says_what_was_found() -> None:
    signature = Signature(Kind.ACCURACY, accuracy="value", stage="run")
    cluster = Cluster(Failure(Drawn(7, "tensors", ""), signature, "codegen", "lower: scaled sin"), [7, 9], "certified", "codegen")
    cluster.shown, cluster.repro, cluster.test, cluster.op_nodes = str(signature), "out/repro.py", "out/test_repro.py", 1
    summary = Summary(Wish(), clusters=[cluster], searching=2.0, next_number=10)
    summary.outcomes["failed"] = 2

    text = as_text(summary)

    assert "1. codegen: accuracy (value)" in text
    assert "2 programs (7, 9); certified, 1 operation; lower: scaled sin" in text
    assert "out/test_repro.py" in text
    validate(json.loads(json.dumps(summary.to_json())))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ({"DYNAMO_FAULT": "wrong-lowering:op=sin"}, ("--ops", "sin")),
        ({"FAULTY_BACKEND": "1"}, ("--ops", "exp", "--backend", "repro_corpus.faulty_backends:wrong_exp")),
    ],
)
def test_a_planted_fault_ends_as_a_test_that_fails(
    fault: dict[str, str], options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        for name, value in fault.items():
            planted.setenv(name, value)
        done = run("fuzz", *options, "--failures", "1", "--json", cwd=tmp_path, timeout=1500)

    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    validate(told)
    (cluster,) = told["clusters"]
    assert (cluster["status"], cluster["op_nodes"]) == ("certified", 1)
    for path in ("repro", "bundle", "issue", "test"):
        assert (tmp_path / cluster[path]).is_file()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cluster["test"]]
    codes = [subprocess.run(command, cwd=tmp_path, env={**os.environ, **more}, capture_output=True).returncode for more in (fault, {})]
    assert codes == [1, 0]
