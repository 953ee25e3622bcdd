"""Steps of optimizers on a GPU that isn't there: one graph each, also from the second step on, where their state goes in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CompileStarted, GraphBroke, GraphLowered
from tests.inductor.triton.pretend import on_cuda

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adadelta": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "ASGD": {},
    "Rprop": {},
    "Adagrad": {},
}


@pytest.mark.parametrize("foreach", [True, False], ids=["foreach", "singly"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_whole(name: str, foreach: bool) -> None:
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(3, n)) for n in (2, 5)]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.01, foreach=foreach, **OPTIMIZERS[name])

    def step() -> None:
        optimizer.step()

    dynamo.reset()
    with session() as store, on_cuda():
        compiled = dynamo.compile(step)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            compiled()
    own = [c.compile_id for c in store.of(CompileStarted) if c.name.endswith(".step")]
    assert len(own) == (1 if name == "Adagrad" else 2)  # Adagrad has its state before the first step
    assert not [b for b in store.of(GraphBroke) if b.compile_id in own]
    assert [g.graph_id for g in store.of(GraphLowered) if g.compile_id in own] == own
