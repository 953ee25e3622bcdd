"""How deep a program stands when it compiles, and how deep it calls: neither takes what Python's limit leaves it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dynamo
from dynamo import config
from tests.depth import called_with

BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("left", [20, 60, 200])
def test_compiling_just_below_the_limit(backend: str, left: int) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(10):
            x = (x * 1.5 + i).sin()
        return x

    x = torch.randn(8)
    compiled = dynamo.compile(f, backend=backend)
    with config.patch(suppress_errors=False):
        found = called_with(left, lambda: compiled(x))

    torch.testing.assert_close(found, f(x))
    assert len(dynamo.entries(compiled)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_modules_in_modules(backend: str) -> None:
    module: nn.Module = nn.Linear(4, 4)
    for _ in range(120):
        module = nn.Sequential(module)
    x = torch.randn(2, 4)

    assert dynamo.explain(module)(x).graph_break_count == 0
    torch.testing.assert_close(dynamo.compile(module, backend=backend, fullgraph=True)(x), module(x))


def test_what_calls_itself_without_end_still_raises() -> None:
    def f(x: torch.Tensor) -> Any:
        return f(x + 1)

    for _ in range(2):
        with pytest.raises(RecursionError):
            dynamo.compile(f, backend="eager")(torch.ones(2))


def test_the_limit_is_as_it_was_afterwards() -> None:
    def left() -> int:
        count = 0

        def deeper() -> None:
            nonlocal count
            count += 1
            deeper()

        with pytest.raises(RecursionError):
            deeper()
        return count

    before = left()
    compiled = dynamo.compile(lambda x: x + 1, backend="inductor")
    called_with(50, lambda: compiled(torch.ones(3)))

    assert left() == before
