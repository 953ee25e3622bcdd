"""The short forms of functions: how far they are from eager, and what they make of infinities and NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.helpers import compiled
from tests.inductor.triton.seam import interpreted

SPECIAL = [math.inf, -math.inf, math.nan, 0.0, -0.0, 3e38, -3e38, 1e-30, -1e-30, 13.9, -13.9, 100.0, -100.0]


def values(dtype: torch.dtype) -> torch.Tensor:
    return torch.cat([torch.tensor(SPECIAL), torch.linspace(-9, 9, 4083)]).to(dtype)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """As eager's kernel for GPUs has it; that for processors makes NaN of infinity."""
    wide = x.float()
    return (0.5 * wide * (1 + torch.erf(wide * math.sqrt(0.5)))).to(x.dtype)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erf": torch.erf,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_rounded_to_16_bits_is_one_of_the_nearest_two(name: str, dtype: torch.dtype) -> None:
    x = values(dtype)
    with interpreted():
        (found,) = compiled(lambda x: FUNCTIONS[name](x), [x])(x)
    expected = {"gelu": gelu}.get(name, FUNCTIONS[name])(x)
    torch.testing.assert_close(found, expected, rtol=1.01 * torch.finfo(dtype).eps, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_float32_is_within_units_of_the_last_place(name: str) -> None:
    x = values(torch.float32)
    with interpreted():
        (found,) = compiled(lambda x: FUNCTIONS[name](x), [x])(x)
    torch.testing.assert_close(found.double(), FUNCTIONS[name](x.double()), rtol=3 * 2**-23, atol=1e-37, equal_nan=True)
