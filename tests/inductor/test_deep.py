"""Expressions deeper than Python's own stack, and programs of many results: no stage follows them by calls, or asks each about all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from inductor.compile import compile_graph
from inductor.targets.triton.file import kernel_file
from tests.depth import called_with
from tests.inductor.helpers import assert_same, trace
from tests.inductor.triton.seam import program_of

DEEP = 100
LEFT = 150  # calls, of which each operation could take one


def chain(x: torch.Tensor) -> torch.Tensor:
    for i in range(DEEP):
        x = (x + i).sin()
    return x


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(DEEP):
        x = torch.cat([x[1:], y[:1] * i])
    return x


def chosen(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for i in range(DEEP):
        x = torch.where(y > i, x, y + x)
    return x


def padded(x: torch.Tensor) -> torch.Tensor:
    for _ in range(DEEP):
        x = F.pad(x, (1, 0))[:-1] + 1
    return x


def followed(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    for _ in range(DEEP):
        i = i[i]
    return x[i]


def summed(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(8)
    for i in range(DEEP):
        total = total + F.pad(x[i % 5 :], (i % 5, 0))
    return total


X, Y = torch.randn(8), torch.randn(8)
PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[torch.Tensor]]] = {
    "float32": (chain, [X]),
    "bfloat16": (chain, [X.bfloat16()]),
    "masks in masks": (joined, [X, Y]),
    "choices": (chosen, [X, Y]),
    "padding": (padded, [X]),
    "indices": (followed, [X, torch.randperm(8)]),
    "a sum of masks": (summed, [X]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_deep_expressions(name: str) -> None:
    fn, args = PROGRAMS[name]
    gm = trace(fn, args)
    run = called_with(LEFT, lambda: compile_graph(gm, args))
    assert_same(run(list(args)), fn(*args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_deep_expressions_as_triton_kernels(name: str) -> None:
    kernels, program = program_of(*PROGRAMS[name])
    assert all(called_with(LEFT, lambda: [kernel_file(k, program) for k in kernels]))


def calls_of(fn: Callable[..., Any], args: Sequence[torch.Tensor], backend: str) -> int:
    """Python and C functions called in the first call of a compiled function and in its backward pass."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    leaves = [a.clone().requires_grad_() for a in args]
    compiled = dynamo.compile(fn, backend=backend)
    sys.setprofile(note)
    try:
        sum(t.sum() for t in compiled(*leaves)).backward()
    finally:
        sys.setprofile(None)
        dynamo.reset()
    return count


MANY: dict[str, Callable[..., Any]] = {
    "results of their own": lambda *xs: [x.sin() for x in xs],
    "results of one": lambda *xs: [xs[0] * i for i, _ in enumerate(xs)],
    "views": lambda *xs: [t[i : i + 2] for i, x in enumerate(xs) for t in [x.sin()]],
    "results of a loop": lambda *xs: list(accumulate(xs, lambda a, b: (a * b).sin())),
    "parts of one": lambda *xs: [torch.cat([xs[0][i : i + 2].sin() for i, _ in enumerate(xs)])],
}


@pytest.mark.parametrize(("backend", "count", "most"), [("aot_eager", 150, 2.3), ("inductor", 40, 2.4)])
@pytest.mark.parametrize("name", MANY)
def test_twice_the_program_is_twice_the_work(name: str, backend: str, count: int, most: float) -> None:
    calls_of(MANY[name], [torch.randn(310)] * 3, backend)
    once, twice = (calls_of(MANY[name], [torch.randn(310) for _ in range(n)], backend) for n in (count, 2 * count))

    assert twice < most * once
