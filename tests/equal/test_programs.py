"""Every program of this folder and of the public corpus is equal to eager on every backend: result, errors, output, state afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro_corpus.isolated import Server, Servers, check
from repro_corpus.program import Program, programs_of
from tests.equal import loading

PROGRAMS = loading.programs()
LOADING = loading.read()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    made = Servers(loading.loaded_before())
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.mark.parametrize("program, backend", [pytest.param(p, b, id=f"{p.id}-{b}") for p in PROGRAMS for b in reversed(p.backends)])
def test_program(program: Program, backend: str, servers: Servers) -> None:
    verdict = servers.run(program, backend)
    assert verdict.outcome == "equal", "\n".join([*verdict.lines, verdict.output])


@pytest.mark.slow
@pytest.mark.parametrize("program", [pytest.param(p, id=p.id) for p in PROGRAMS if p.id in LOADING])
def test_program_that_loads_what_it_needs(program: Program, server: Server) -> None:
    """Loads it itself, on its deepest backend. Where something else is loaded, `python -m tests.equal.loading` lists it anew."""
    verdict = server.run(program, program.backends[-1])
    assert verdict.outcome == "equal", "\n".join([*verdict.lines, verdict.output])
    assert verdict.loaded[:1] == [LOADING[program.id]]


def test_listed_programs_are_there() -> None:
    assert set(LOADING) <= {p.id for p in PROGRAMS}


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
