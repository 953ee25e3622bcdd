"""Float32 sums are at least as close to float64 as eager's."""

from __future__ import annotations

import pytest
import torch

from tests.inductor.helpers import compiled

SUMS = {
    "long row": (lambda x: x.sum(1), (3, 200_000)),
    "rows": (lambda x: x.sum(1), (100, 5000)),
    "short rows": (lambda x: x.sum(1), (1000, 64)),
    "columns": (lambda x: x.sum(0), (20_000, 40)),
    "few columns": (lambda x: x.sum(0), (100_000, 3)),
    "everything": (lambda x: x.sum(), (1000, 1001)),
    "mean": (lambda x: x.mean(1), (50, 10_000)),
    "variance": (lambda x: x.var(1), (50, 10_000)),
    "batch statistics": (lambda x: x.view(20, 8, -1).var((0, 2)), (20, 8 * 500)),
    "softmax": (lambda x: x.softmax(1), (40, 3000)),
}


def error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("offset", [0.0, 10.0])
@pytest.mark.parametrize("name", SUMS)
def test_error_against_float64(name, offset):
    fn, shape = SUMS[name]
    torch.manual_seed(1)
    x = torch.rand(shape) + offset
    exact = fn(x.double())
    ours, eager = error(compiled(fn, [x])(x)[0], exact), error(fn(x), exact)
    epsilon = torch.finfo(torch.float32).eps
    assert ours <= max(1.5 * eager, 2 * epsilon), f"ours {ours:.2e}, eager {eager:.2e}"


UNITS = {"exp": (1.6, (-104.0, 89.0)), "erf": (1.5, (-5.0, 5.0))}  # what the prelude's own functions promise, and where


@pytest.mark.parametrize("name", UNITS)
def test_units_in_the_last_place(name):
    most, (low, high) = UNITS[name]
    fn = getattr(torch, name)
    tiny = torch.logspace(-38, 0, 100_000)
    x = torch.cat([torch.linspace(low, high, 2_000_000), tiny, -tiny])
    exact = fn(x.double())
    rounded = exact.float().abs()
    unit = (torch.nextafter(rounded, torch.tensor(torch.inf)) - rounded).double()
    found = compiled(fn, [x])(x)[0].double()
    assert float(((found - exact).abs() / unit)[unit.isfinite()].max()) <= most


@pytest.mark.parametrize("name", UNITS)
def test_ends_of_the_range(name):
    fn = getattr(torch, name)
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 200.0, -200.0])
    assert str(compiled(fn, [x])(x)[0].tolist()) == str(fn(x).tolist())
