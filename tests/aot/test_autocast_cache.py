"""Weights that change within a block of autocast: compiled code casts them as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo


def products(compile: Callable[[Any], Any]) -> tuple[torch.Tensor, torch.Tensor]:
    w = torch.nn.Parameter(torch.eye(3))
    f = compile(lambda x: x @ w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = f(torch.ones(2, 3))
        with torch.no_grad():
            w.mul_(3)
        return first, f(torch.ones(2, 3))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_casts_are_of_the_weights_as_they_are(backend: str) -> None:
    first, second = products(lambda f: dynamo.compile(f, backend=backend))
    assert first.unique().tolist() == [1] and second.unique().tolist() == [3]


def test_eager_and_the_captured_graph_take_the_cast_of_the_first_call() -> None:
    for compile in (lambda f: f, lambda f: dynamo.compile(f, backend="eager")):
        first, second = products(compile)
        assert first.unique().tolist() == [1] and second.unique().tolist() == [1]
