"""Zeros without memory are zeros by their key: eager multiplies nothing with them, and a zero keeps its sign beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo import decisions
from tests.inductor.helpers import flat

ODD = torch.tensor([0.0, -0.0, 1.5, -2.5, torch.nan, torch.inf, -torch.inf, 1e-40])
aten = torch.ops.aten


def absent(*shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    return aten._efficientzerotensor(list(shape), dtype=dtype)


CASES: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: absent(8) * x,
    lambda x: x * absent(1) * 2 + x,
    lambda x: (x.view(8, 1) * absent(8)).t(),
    lambda x: absent(8) / x,
    lambda x: x / absent(8),
    lambda x: absent(8) / absent(1),
    lambda x: x + absent(8),
    lambda x: absent(8) + x,
    lambda x: x - absent(8),
    lambda x: absent(8) - x,
    lambda x: torch.add(absent(8), x, alpha=3),
    lambda x: torch.sub(x, absent(8), alpha=2) * 1.5,
    lambda x: x.view(2, 4).t() + absent(3, 4, 2),
    lambda x: absent(8, dtype=torch.float64) + x,
    lambda x: (absent(8) + absent(2, 8)) * x,
    lambda x: absent(8).view(2, 4).t().unsqueeze(0).expand(2, 4, 2)[1] * x.view(4, 2),
    lambda x: absent(8).split(4)[1] * x[4:] + absent(8).unbind()[0] * x[:4],
    lambda x: aten._unsafe_view(absent(8), [2, 4]) * x.view(2, 4),
    lambda x: (absent(4, 2).t() * x.view(4, 2).t()).t() + x.view(2, 4).t(),
    lambda x: x.view(2, 4).t() + absent(4, 2),
    lambda x: torch.dot(absent(8), x) * x.sum(),
    lambda x: torch.linalg.cross(absent(2, 3), x[:6].view(2, 3)) * x[:3],
    # read as ordinary zeros
    lambda x: torch.mv(absent(8, 8), x),
    lambda x: (absent(2, 4).t().sin(), absent(2, 4).t().clone(), absent(2, 4).t() + 2.0, torch.zeros_like(absent(2, 4).t())),
    lambda x: (absent(2, 4).t().to(torch.float64), torch.cat([absent(2, 4).t(), x.view(4, 2)]), absent(3, 2).t().relu().sum(0)),
    lambda x: absent(8) + 2.0,
    lambda x: x.clone().mul_(absent(8)),
    lambda x: torch.addcdiv(absent(8), x, x),
    lambda x: F.mse_loss(absent(8), x, reduction="none") * absent(8).clone(),
    lambda x: absent(8).neg() * x,
    lambda x: absent(8).clone() * x,
    lambda x: absent(8).cumsum(0) * x,
    lambda x: torch.addcmul(x, absent(8), x),
    lambda x: torch.addcdiv(x, absent(8), x),
    lambda x: torch.lerp(absent(8), x, x),
    lambda x: torch.where(x > 0, absent(8), x) * x,
]


@pytest.mark.parametrize("backend, fuel", [("inductor", ""), ("inductor", "-passes"), ("inductor", "-aot"), ("aot_eager", "")])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_as_eager(case: int, backend: str, fuel: str) -> None:
    with decisions.limited(fuel):
        results = dynamo.compile(CASES[case], backend=backend, fullgraph=True)(ODD)
        for found, wanted in zip(flat(results), flat(CASES[case](ODD)), strict=True):
            expected = wanted.clone()
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
            assert found.stride() == expected.stride()
            assert torch.equal(found.signbit() | found.isnan(), expected.signbit() | expected.isnan())
