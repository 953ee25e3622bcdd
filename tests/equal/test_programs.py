"""Every program of this folder and of the public corpus is equal to eager on every backend: result, errors, output, state afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_corpus.isolated import Server, Servers, check
from repro_corpus.program import Program, modules_below, programs_of

PROGRAMS = [p for package in ("tests.equal", "repro_corpus.public") for m in modules_below(package) for p in programs_of(m)]


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.close()


@pytest.mark.parametrize("program, backend", [pytest.param(p, b, id=f"{p.id}-{b}") for p in PROGRAMS for b in reversed(p.backends)])
def test_program(program: Program, backend: str, servers: Servers) -> None:
    verdict = servers.run(program, backend)
    assert verdict.outcome == "equal", "\n".join([*verdict.lines, verdict.output])


@pytest.mark.parametrize(
    "raises, key, said",
    [
        ("", "there", ""),
        ("KeyError: 'elsewhere'", "elsewhere", ""),
        ("", "elsewhere", "eager raises KeyError: 'elsewhere': declare it (`raises=`) or mend the program"),
        ("KeyError: 'other'", "elsewhere", "eager is declared to raise KeyError: 'other', it raises KeyError: 'elsewhere'"),
        ("KeyError", "there", "eager is declared to raise KeyError, it raises nothing"),
    ],
)
def test_what_eager_raises_is_declared(raises: str, key: str, said: str) -> None:
    program = Program("here", "reads", "", "reads a dict", lambda compile: compile({"there": 1}.__getitem__)(key), raises=raises)
    assert check(program, "eager") == [said] * bool(said)


def test_many_differences_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a pipe holds."""
    text = """
from repro_corpus.program import program

@program("", "differs at every place")
def differs(compile):
    return list(range(3000)) if compile.__name__ == "compile" else ["text"] * 3000
"""
    (tmp_path / "differing.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    (program,) = programs_of("differing")
    server = Server(timeout=60.0)
    verdict = server.run(program, "eager")
    server.close()
    assert verdict.outcome == "different"
    assert len(verdict.lines) > 3000
