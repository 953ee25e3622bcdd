"""Zeros without memory are zeros by their key: eager multiplies nothing with them, and a zero keeps its sign beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

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
    # read as ordinary zeros
    lambda x: absent(8).neg() * x,
    lambda x: absent(8).clone() * x,
    lambda x: absent(8).cumsum(0) * x,
    lambda x: torch.addcmul(x, absent(8), x),
    lambda x: torch.addcdiv(x, absent(8), x),
    lambda x: torch.lerp(absent(8), x, x),
    lambda x: torch.where(x > 0, absent(8), x) * x,
]


@pytest.mark.parametrize("fuel", ["", "-passes"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_as_eager(case: int, fuel: str) -> None:
    with decisions.limited(fuel):
        results = dynamo.compile(CASES[case], backend="inductor", fullgraph=True)(ODD)
        for found, wanted in zip(flat(results), flat(CASES[case](ODD)), strict=True):
            expected = wanted.clone()
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(found.signbit() | found.isnan(), expected.signbit() | expected.isnan())
