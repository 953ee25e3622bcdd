"""What programs become for a GPU, seen without one: calls of libraries, kernels, layouts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn

import dynamo
from inductor.ir.nest import Extern
from inductor.schedule.plan import Plan
from tests.inductor.triton.pretend import on_cuda


def compiled(fn: Any, *given: torch.Tensor, calls: int = 1) -> list[Plan]:
    with on_cuda() as plans:
        run = dynamo.compile(fn, backend="inductor", fullgraph=True)
        for _ in range(calls):
            run(*given)
    return plans


def externs(plan: Plan) -> Counter[str]:
    return Counter(str(s.target).removeprefix("aten.").removesuffix(".default") for s in plan.steps if isinstance(s, Extern))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_a_step_of_an_optimizer_counts_on_the_device(kind: type[torch.optim.Optimizer]) -> None:
    parameters = [nn.Parameter(torch.randn(n, 7)) for n in (33, 5, 300)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = kind(parameters)
    plans = compiled(optimizer.step, calls=2)
    assert all(p.program.device == "cuda:0" for p in plans)
    assert [externs(p) for p in plans] == [Counter()] * len(plans)
    assert len(plans[-1].kernels) <= 2
    assert all(group["capturable"] for group in optimizer.param_groups)


def test_attention_is_the_flash_kernel() -> None:
    q = torch.randn(2, 4, 64, 32, dtype=torch.bfloat16)
    (plan,) = compiled(lambda q: nn.functional.scaled_dot_product_attention(q, q, q) + 1, q)
    assert externs(plan) == Counter({"_scaled_dot_product_flash_attention": 1})
    assert len(plan.kernels) == 1
