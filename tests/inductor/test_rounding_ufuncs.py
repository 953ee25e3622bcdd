"""Element-wise operators of 16-bit tensors over many values: ATen's digits, but for near ties where the libraries' functions differ.

op_db's samples hold some dozens of values, too few to show where ATen rounds inside one operator.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, OpInfo, UnaryUfuncInfo

import dynamo
from tests.samples import draw

COUNT = 4000
PARTS = 4
NEAR_TIES = 0.005  # of the elements may be one unit off; erf of float16 has 0.003
APPROXIMATE = {"erf"}  # ATen's vectors of 16-bit values are right to 1.5e-7 only, 3 % of erf(5e-6): float64 is the reference
OPS = [op for op in op_db if isinstance(op, UnaryUfuncInfo | BinaryUfuncInfo) and not op.name.startswith("jiterator")]


def values(dtype: torch.dtype, seed: int, domain: tuple[float | None, float | None] = (None, None)) -> torch.Tensor:
    """Numbers of both signs and many magnitudes, inside the domain where an operator has one."""
    generator = torch.Generator().manual_seed(seed)
    if domain == (None, None):
        return (torch.randn(COUNT, generator=generator) * torch.exp(torch.randn(COUNT, generator=generator) * 1.5)).to(dtype)
    low, high = -10 if domain[0] is None else domain[0], 10 if domain[1] is None else domain[1]
    return (low + 0.005 + torch.rand(COUNT, generator=generator) * (high - low - 0.01)).to(dtype)


def arguments(op: OpInfo, dtype: torch.dtype) -> tuple[torch.Tensor, ...] | None:
    if isinstance(op, UnaryUfuncInfo):
        return (values(dtype, 1, op.domain),)
    limits = op.lhs_make_tensor_kwargs
    return values(dtype, 1, (limits.get("low"), limits.get("high"))), values(dtype, 2)


def check(op: OpInfo, dtype: torch.dtype) -> str:
    """What is wrong; '' for nothing."""
    (sample,) = draw(op, dtype, 1)
    args = arguments(op, dtype)
    if len(sample.args) != len(args) - 1:
        return ""

    def fn(*tensors: torch.Tensor) -> Any:
        return op.op(*tensors, **sample.kwargs)

    expected = fn(*args) if op.name not in APPROXIMATE else fn(*(a.double() for a in args)).to(dtype)
    if not isinstance(expected, torch.Tensor):
        return ""
    dynamo.reset()  # every `fn` has one code object, whose number of graphs is limited
    found = dynamo.compile(fn, backend="inductor")(*args)
    if expected.dtype is not dtype:
        torch.testing.assert_close(found, expected, equal_nan=True)
        return ""
    same = (expected == found) | (expected.isnan() & found.isnan())
    unit = (torch.nextafter(expected, torch.full_like(expected, torch.inf)) - expected).abs()
    far = ~same & ~((expected - found).abs() <= unit)
    if far.any() or (~same).sum() > NEAR_TIES * COUNT:
        i = (far if far.any() else ~same).nonzero()[0]
        return f"{op.formatted_name}: {(~same).sum()} differ, at {[a[i].item() for a in args]} {found[i].item()}, not {expected[i].item()}"
    return ""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_ufuncs(dtype: torch.dtype, part: int) -> None:
    wrong = [found for op in OPS[part::PARTS] if dtype in op.dtypes and (found := check(op, dtype))]
    assert not wrong, "\n".join(wrong)
