"""Random programs that are interrupted while one of their graphs is compiled or runs, as by Ctrl-C: no mode of theirs stays behind."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from minifier.fuzz.draw.state_programs import state_programs
from repro_corpus.observe import surroundings
from tests.generator.running import run_programs
from tests.generator.test_state_programs import made

PROGRAMS = 40
GRAPHS = 6  # of each program, one after the other
WHERE = ("compile", "run")


class Stopped(BaseException):
    """As `KeyboardInterrupt`, which ends the tests."""


def interrupted(text: str, at: int, where: str) -> bool:
    """Whether the program got as far as that compile or run of a graph, which does not end."""
    calls = itertools.count()

    def stop_in(here: str) -> None:
        if here == where and next(calls) == at:
            raise Stopped

    def backend(gm: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            stop_in("run")
            return gm.forward(*args)

        stop_in("compile")
        return run

    program, before = made(text), surroundings()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception, Stopped):
        warnings.simplefilter("ignore")
        program.run(lambda fn=None, **options: dynamo.compile(fn, backend=backend, **options))
    left = {name: now for name, now in surroundings().items() if before[name] != now and name != "random state"}
    dynamo.reset()
    assert not left, f"{text}\nleft by an interrupted {where} of graph {at}: {left}"
    return next(calls) > at


@pytest.mark.parametrize("where", WHERE)
def test_nothing_is_left_of_an_interrupted_program(where: str) -> None:
    def check(text: str) -> None:
        at = 0
        while at < GRAPHS and interrupted(text, at, where):
            at += 1

    run_programs(state_programs(), check, 0, PROGRAMS)


@pytest.mark.parametrize("where", WHERE)
def test_an_interrupt_is_told_from_a_program_that_ends(where: str) -> None:
    text = "import torch\n\ndef program(compile):\n    return compile(lambda x: x * 2)(torch.ones(3))\n"
    assert interrupted(text, 0, where)
    assert not interrupted(text, 1, where)


def test_a_mode_that_is_left_is_told() -> None:
    text = "import torch\n\ndef program(compile):\n    torch.set_grad_enabled(False)\n    compile(lambda x: x * 2)(torch.ones(3))\n"
    with torch.enable_grad(), pytest.raises(AssertionError, match="is_grad_enabled"):
        interrupted(text, 0, "run")
