"""Digits: errors against float64 are at most eager's, and what one operator rounds, every reader sees rounded.

Eager's own error is a draw: another order of the same additions moves it by an ulp or two. So an error counts as larger where it
exceeds eager's by more than the last place of a result.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo
from tests.inductor.helpers import compiled

ROWS = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "column sum": lambda x: x.t().contiguous().sum(0),
    "column mean": lambda x: x.t().contiguous().mean(0),
    "everything": lambda x: x.sum(),
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum of columns": lambda x: x.t().contiguous().cumsum(0),
    "cumprod": lambda x: x.cumprod(-1),
    "prod": lambda x: x.prod(-1),
    "nansum": lambda x: x.nansum(-1),
    "norm": lambda x: x.norm(dim=-1),
    "1-norm": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "3-norm": lambda x: torch.linalg.vector_norm(x, 3, -1),
    "variance": lambda x: x.var(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "sum of squares": lambda x: (x * x).sum(-1),
}
SIZES = (10, 1000, 100_000, 1_000_000)
PRODUCTS = ("prod", "cumprod")  # of numbers near 1
OFFSETS = dict.fromkeys(PRODUCTS, (0.0,))


def error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ROWS)
def test_error_is_at_most_that_of_eager(name, size):
    fn = ROWS[name]
    for offset in OFFSETS.get(name, (0.0, 10.0)):
        x = torch.rand(min(4, 2_000_000 // size), size, generator=torch.Generator().manual_seed(size)) + offset
        x = (x - 0.5) * 1e-3 + 1 if name in PRODUCTS else x
        exact = fn(x.double())
        ours, eager = error(compiled(fn, [x])(x)[0], exact), error(fn(x), exact)
        assert ours <= eager + torch.finfo(torch.float32).eps, f"offset {offset}: ours {ours:.2e}, eager {eager:.2e}"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [n for n in ROWS if n not in PRODUCTS])
def test_error_in_16_bits(name, dtype):
    fn = ROWS[name]
    for size in SIZES[:2]:
        x = torch.rand(4, size, generator=torch.Generator().manual_seed(size)).to(dtype)
        exact = fn(x.double())
        ours, eager = error(compiled(fn, [x])(x)[0], exact), error(fn(x), exact)
        assert ours <= eager * 1.01 + torch.finfo(torch.float32).eps, f"{size}: ours {ours:.2e}, eager {eager:.2e}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scans_are_eager_bit_by_bit(dtype):
    x = torch.randn(3, 1024, generator=torch.Generator().manual_seed(0)).to(dtype)

    def scans(t):
        return t.cumsum(1), t.t().contiguous().cumsum(0), (t * 0.01 + 1).to(dtype).cumprod(1), t.cumsum(1, dtype=torch.float64)

    for found, expected in zip(compiled(scans, [x])(x), scans(x), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("size", [3, 49, 1000, 30_000])
@pytest.mark.parametrize("name", ["layer norm", "variance", "group norm", "batch norm"])
def test_rows_of_one_value_have_no_deviation(name, size):
    fn = {
        **ROWS,
        "group norm": lambda x: F.group_norm(x[:, None], 1),
        "batch norm": lambda x: F.batch_norm(x.t().contiguous(), None, None, training=True),
    }[name]
    x = torch.tensor([88.8, -1e-3, 12345.678])[:, None].expand(3, size).contiguous()
    found, expected = compiled(fn, [x])(x)[0], fn(x)
    assert bool((found.abs() <= expected.abs()).all()), (found, expected)


@pytest.mark.parametrize("size", [130, 10_000, 1_000_000])
def test_long_sums_of_infinities_and_of_numbers_beyond_the_range(size):
    x = torch.ones(3, size)
    x[0, size // 2], x[1], x[2, 0] = torch.inf, 3e38, -torch.inf

    def sums(t):
        return t.sum(1), t.t().contiguous().sum(0), t.mean(1), (t * 2).t().contiguous().sum(0)

    for found, expected in zip(compiled(sums, [x])(x), sums(x), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64])
def test_logarithms_of_powers_of_ten_count_digits(dtype):
    highest = {torch.float16: 4, torch.int64: 18}.get(dtype, 38)
    powers = torch.tensor([10**k for k in range(highest + 1)], dtype=torch.float64).to(dtype)

    def digits(t):
        return t.log10(), t.log10().floor(), t.log10().ceil()

    for found, expected in zip(compiled(digits, [powers])(powers), digits(powers), strict=True):
        assert torch.equal(found, expected)


def by_maximum(t, u):
    v = t * u
    return (v - v.amax(-1, True)).exp()


def by_mean(t, u):
    v = t * u
    return v - v.mean(-1, keepdim=True) * 1.0, v - v.amin(-1, True)


def by_itself(t, u):
    v = t * u
    return (v + v) - v * 2, v - v.clone(), v.sum(-1) - v.sum(-1)


@pytest.mark.parametrize(
    "fn",
    [
        by_maximum,
        by_itself,
        lambda t, u: torch.softmax(t * u, -1),
        lambda t, u: torch.log_softmax(t * u, -1),
        lambda t, u: torch.logsumexp(t * u, -1),
        lambda t, u: (t * u - (t * u).cummax(-1)[0]).exp(),
        lambda t, u: torch.stack([t * u, -t * u]).sum(0),
        lambda t, u: F.cross_entropy(t * u, torch.arange(8), reduction="none"),
        lambda t, u: (t * u).sort(-1)[0] - (t * u).topk(64, -1)[0].flip(-1),
    ],
)
@pytest.mark.parametrize("scale", [1e14, 3e7])
def test_one_value_has_one_rounding(fn, scale):
    given = torch.randn(8, 64, generator=torch.Generator().manual_seed(0)), torch.full((8, 64), scale) + torch.arange(64.0)
    grads = []
    for run in (fn, dynamo.compile(fn, backend="inductor")):
        leaves = [t.clone().requires_grad_() for t in given]
        out = run(*leaves)
        first = out if isinstance(out, torch.Tensor) else out[0]
        grads.append([*(out if isinstance(out, tuple) else (out,)), *torch.autograd.grad(first.sum(), leaves)])
    for expected, found in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6 * float(expected.detach().abs().max()) + 1e-30)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "fn",
    [
        lambda o, i, x: o[:, 0].scatter_add(0, i, x[:, 0]),
        lambda o, i, x: o.scatter_add(0, i[:, None].expand(-1, 5), x),
        lambda o, i, x: o.t().contiguous().scatter_add(1, i[None].expand(5, -1), x.t().contiguous()),
        lambda o, i, x: o[:, 0].index_add(0, i, x[:, 0]),
        lambda o, i, x: o.index_add(0, i, x),
        lambda o, i, x: o.index_add(0, i[:50], x[:50]),
        lambda o, i, x: o.t().contiguous().index_add(1, i, x.t().contiguous()),
        lambda o, i, x: o[:, 0].index_put((i,), x[:, 0], accumulate=True),
        lambda o, i, x: o[:, 0].scatter_reduce(0, i, x[:, 0], "sum"),
    ],
)
def test_many_values_added_to_one_16_bit_element(fn, dtype):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4000, 5, generator=generator).to(dtype)
    given = torch.ones(7, 5, dtype=dtype), torch.randint(0, 7, (4000,), generator=generator), x
    assert torch.equal(compiled(fn, given)(*given)[0], fn(*given))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rsqrt_of_every_16_bit_number(dtype):
    """Eager rounds the root as well where it goes one by one: in short or strided tensors, and behind the last whole vector."""
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    assert torch.equal(compiled(torch.rsqrt, [every])(every)[0].nan_to_num(), torch.rsqrt(every).nan_to_num())
