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
from repro_corpus.observe import Observation, differences, observe
from repro_corpus.program import Program
from tests.generator.running import run_new_programs, run_programs

TOLERANCE = (1e-3, 1e-4)
VALUES = ": values: "
ARGUMENT = "= torch.randn(3, 3)"  # of drawn programs
ROUNDINGS = (-4e-7, -2e-7, 2e-7, 4e-7)
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


def places_that_move(text: str, expected: Observation) -> set[str]:
    """Where eager's own values become others when the arguments are moved by a rounding: `sin` of a large number keeps no digit."""
    found: set[str] = set()
    for step in ROUNDINGS:
        program = made(text.replace(ARGUMENT, f"{ARGUMENT}.mul_(1 + {step})"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = observe(program, plain)
        found |= {line.partition(VALUES)[0] for line in differences(expected, seen, TOLERANCE) if VALUES in line}
    return found


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
    wrong = [f"run {i}: {line}" for i, seen in enumerate(found, 1) for line in differences(expected, seen, TOLERANCE)]
    if wrong and any(VALUES in line for line in wrong):
        moved = places_that_move(text, expected)
        wrong = [line for line in wrong if VALUES not in line or line.partition(": ")[2].partition(VALUES)[0] not in moved]
    if wrong:
        torch.set_grad_enabled(True)
        raise AssertionError(f"\n{text}\n{backend}:\n" + "\n".join(wrong))


def test_only_values_without_digits_may_differ() -> None:
    text = "import torch\ndef program(compile):\n    a = torch.randn(3, 3)\n    return (a * 1e7).sin(), a.sin(), (a * 1e7).sin() > 2"
    assert places_that_move(text, observe(made(text), plain)) == {"result[0]"}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("backend", PROGRAMS)
def test_state_programs(backend: str) -> None:
    run_programs(state_programs(), lambda text: check_program(text, backend), 0, PROGRAMS[backend])


@pytest.mark.fuzz
@pytest.mark.parametrize("backend", PROGRAMS)
def test_new_state_programs(backend: str) -> None:
    run_new_programs(state_programs(), lambda text: check_program(text, backend), 100)
