"""A float32 number held by a tensor without dims beside 16-bit values: ATen takes it as it is or rounded, as the operator has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dynamo
from tests.inductor.test_rounding_ufuncs import NEAR_TIES

HALVES = (torch.bfloat16, torch.float16)
SIZE = 4096  # whole vectors: the ends of rows that ATen computes one by one may round otherwise
BINARY = (
    "add sub rsub mul div pow maximum minimum fmax fmin atan2 fmod remainder hypot copysign floor_divide xlogy logaddexp logaddexp2 "
    "lt le gt ge eq ne ldexp nextafter heaviside true_divide special_xlog1py"
).split()
MORE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "where": lambda a, b: torch.where((a > 0.9) & (b > 0), a, b),
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "addcmul with value": lambda a, b: torch.addcmul(b, a, b, value=0.3),
    "addcdiv": lambda a, b: torch.addcdiv(a, a, b),
    "addcdiv with value": lambda a, b: torch.addcdiv(b, a, b, value=0.3),
    "sub with alpha": lambda a, b: torch.sub(a, b, alpha=0.3),
    "div floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "clamp": lambda a, b: torch.clamp(a, b, b + 1),
    "in place": lambda a, b: (a if a.dim() else b).clone().mul_(b if a.dim() else a),
    "a chain": lambda a, b: (a * b - b) / b,
}
LIBRARY = {"atan2", "xlogy", "special_xlog1py", "logaddexp", "logaddexp2", "pow", "hypot"}  # whose digits are another library's
OPERATORS = {**{name: getattr(torch, name, None) or torch.special.xlog1py for name in BINARY}, **MORE}


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("place", ["first", "last"])
def test_numbers_are_rounded_where_aten_rounds_them(place: str, dtype: torch.dtype) -> None:
    wrong = []
    for name, fn in OPERATORS.items():
        generator = torch.Generator().manual_seed(len(name))
        values = (torch.rand(SIZE, generator=generator) + 0.5).to(dtype)
        number = torch.rand((), generator=generator) + 0.7
        args = (number, values) if place == "first" else (values, number)
        try:
            expected = fn(*args)
        except (RuntimeError, TypeError):
            continue  # neither does eager take numbers in this place
        for form, given in (("given", fn), ("computed", lambda a, b, fn=fn: fn(a + 0.0, b + 0.0))):
            found = dynamo.optimize("inductor", nopython=True)(given)(*args)
            differ = int((found != expected).sum())
            if found.dtype != expected.dtype or differ > (NEAR_TIES * SIZE if name in LIBRARY else 0):
                wrong.append(f"{name} of a number {form}: {differ} of {SIZE} differ")
        dynamo.reset()
    assert not wrong, "\n".join(wrong)
