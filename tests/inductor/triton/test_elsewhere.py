"""Tensors of the processor beside those of a GPU: the graph is compiled, kernels read copies, and what stays there ATen computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from dynamo.fake import convert
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.ir.nest import Extern
from tests.inductor.triton.pretend import CUDA, on_cuda

RATE = torch.tensor(3.0)
CPU = torch.device("cpu")


def steps_of(fn: Callable[..., Any], *given: torch.Tensor) -> tuple[list[str], list[str]]:
    """The steps of a graph in which tensors without dims are the processor's, and what was noted."""
    with session() as store, on_cuda() as made, pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "device_of", lambda t: CUDA if t.dim() else CPU)
        dynamo.compile(fn, backend="inductor", fullgraph=True)(*given)
    steps = [str(s.target) if isinstance(s, Extern) else "kernel" for plan in made.plans for s in plan.steps]
    return [s.removeprefix("aten.") for s in steps], [n.message for n in store.of(Note)]


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * RATE + RATE


def chosen(x: torch.Tensor) -> torch.Tensor:
    return x[torch.tensor([0, 2])] + 1


def computed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    twice = RATE * 2
    return x + twice, twice


def moved(x: torch.Tensor) -> torch.Tensor:
    return x.sum() + RATE.to(x.device)


def fetched(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).cpu() * 2


ROWS = {
    scaled: ["_to_copy.default", "kernel"],
    chosen: ["_to_copy.default", "kernel"],
    computed: ["mul.Tensor", "_to_copy.default", "kernel"],
    moved: ["_to_copy.default", "kernel"],
    fetched: ["kernel", "_to_copy.default", "mul.Tensor"],
}


@pytest.mark.parametrize("fn", ROWS)
def test_steps(fn: Callable[..., Any]) -> None:
    assert steps_of(fn, torch.randn(4, 5)) == (ROWS[fn], [])


def test_what_is_written_on_the_processor_is_not_compiled() -> None:
    def count(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        n.add_(1)
        return x * n

    steps, notes = steps_of(count, torch.randn(4, 5), torch.tensor(0.0))
    assert steps == []
    assert len(notes) == 1 and "computes on cpu, beside tensors on cuda:0" in notes[0]
