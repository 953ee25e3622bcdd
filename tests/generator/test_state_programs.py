"""Random programs with state: results, errors, output, random state and modes afterwards are eager's, compiled twice.

`make test` runs PROGRAMS per backend, always the same ones; `make fuzz` runs new ones for FUZZ_SECONDS.
"""

from __future__ import annotations

import itertools
import linecache
import types
import warnings
from typing import Any

import pytest
import torch

import dynamo
from minifier.fuzz.draw.state_programs import state_programs
from repro_corpus.observe import differences, observe
from repro_corpus.program import Program
from tests.generator.running import run_new_programs, run_programs

PROGRAMS = {"eager": 100, "aot_eager": 150, "inductor": 40}
_numbers = itertools.count()
with torch.random.fork_rng(devices=[]):  # asks for an accelerator, which a function mode sees once per process
    pass


def made(text: str) -> Program:
    """A program of the corpus from its text, in a module of its own."""
    filename = f"state_{next(_numbers)}.py"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module = types.ModuleType(filename)
    exec(compile(text, filename, "exec"), vars(module))
    vars(module)["_module"] = module  # a module clears its namespace when it is collected
    return Program(filename, "program", "", "", module.program)


def plain(fn: Any = None, **options: Any) -> Any:
    return fn


def check_program(text: str, backend: str) -> None:
    program = made(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [observe(program, lambda fn: dynamo.compile(fn, backend=backend))]
        expected = observe(program, plain)
        found.append(observe(program, lambda fn: dynamo.compile(fn, backend=backend)))
    dynamo.reset()
    wrong = [f"run {i}: {line}" for i, seen in enumerate(found, 1) for line in differences(expected, seen, (1e-3, 1e-4))]
    if wrong:
        torch.set_grad_enabled(True)
        raise AssertionError(f"\n{text}\n{backend}:\n" + "\n".join(wrong))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", PROGRAMS)
def test_state_programs(backend: str) -> None:
    run_programs(state_programs(), lambda text: check_program(text, backend), 0, PROGRAMS[backend])


@pytest.mark.fuzz
@pytest.mark.parametrize("backend", PROGRAMS)
def test_new_state_programs(backend: str) -> None:
    run_new_programs(state_programs(), lambda text: check_program(text, backend), 100)
