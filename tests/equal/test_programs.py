"""Every program of this folder and of the public corpus is equal to eager on every backend: result, errors, output, state afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from repro_corpus.isolated import Servers
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
