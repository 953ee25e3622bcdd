"""Forms of kernels that only certain sizes and layouts reach: each against eager and the interpreter."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.inductor.helpers import check, compiled

torch.manual_seed(0)


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.randn(shape) * 20).to(dtype)


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows, columns", [(64, 64), (70, 33), (16, 200), (131, 97)])
def test_transposed_patches(rows: int, columns: int, dtype: torch.dtype) -> None:
    """Reads and writes along the other loop, whole and cut tiles."""
    x, y = draw(rows, columns, dtype=dtype), draw(columns, rows, dtype=dtype)
    check(lambda a, b: (a.t() + b, a + b.t(), a.t().contiguous()), x, y)


def test_transposed_in_a_batch() -> None:
    x = draw(3, 20, 9, 8)
    check(lambda a: (a.relu().to(memory_format=torch.channels_last) + 1, a.permute(0, 2, 3, 1).contiguous()), x)


def test_transposed_update_of_an_input() -> None:
    x, y = draw(40, 72), draw(72, 40)
    expected = x + y.t()
    compiled(lambda a, b: a.add_(b.t()), (x.clone(), y))(x, y)
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("extent", [1, 3, 8, 15, 31, 33, 49, 64, 65, 127, 129, 511, 513, 1100])
def test_rows_of_any_length(extent: int) -> None:
    """Lanes, what is left after them, and their combination."""
    x = draw(5, extent)
    check(lambda a: (torch.softmax(a, -1), a.amax(1), a.argmin(1), a.abs().sum(1)), x, rtol=1e-5, atol=1e-5)


def test_exp_everywhere() -> None:
    """Specials, subnormal results and the ends of the range."""
    specials = torch.tensor([torch.inf, -torch.inf, torch.nan, 0.0, -0.0, 1e30, -1e30, 88.7228, -103.97])
    check(torch.exp, torch.cat([torch.linspace(-110, 95, 5000), specials]), rtol=4e-7, atol=3e-45)


def test_softmax_of_specials() -> None:
    inf, nan = torch.inf, torch.nan
    check(lambda a: torch.softmax(a, 1), torch.tensor([[1.0, inf, 2.0], [nan, 1.0, 2.0], [-inf, -inf, -inf], [-inf, 0.0, 3e38]]))


POOLS = [(3, 2, 1, 1, False), (3, 1, 1, 1, False), (2, 2, 0, 1, False), (3, 2, 1, 2, False), (3, 2, 1, 1, True), (5, 3, 2, 1, False)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("kernel, stride, padding, dilation, ceil", POOLS)
def test_max_pool(kernel: int, stride: int, padding: int, dilation: int, ceil: bool, dtype: torch.dtype) -> None:
    """Borders and interior; ties, NaN and windows of -inf report the place that eager reports."""
    x = (torch.randn(2, 3, 23, 40) * 2).round().to(dtype)
    if dtype.is_floating_point:
        x[0, 0, 3, 5:9], x[0, 1, 10:13], x[1, 2, :4, :4] = torch.nan, -torch.inf, -torch.inf
        x[1, 0, 0, 0], x[1, 0, -1, -1], x[1, 0, 22, 0] = torch.nan, torch.nan, torch.inf
    pool = torch.ops.aten.max_pool2d_with_indices
    check(lambda a: pool(a, [kernel] * 2, [stride] * 2, [padding] * 2, [dilation] * 2, ceil), x)


@pytest.mark.parametrize("width", [5, 9, 20, 65])
def test_padding_has_an_interior(width: int) -> None:
    x = draw(3, 4, 6, width)
    check(lambda a: (F.pad(a, (2, 1, 1, 0)).exp(), F.avg_pool2d(a, 3, 1, 1), F.pad(a, (-1, 3), value=2.0) * 2), x, rtol=1e-5, atol=1e-5)


def test_gather_computes_only_what_it_reads() -> None:
    """A producer read through an index is computed at that index, unless its own place in the tensor matters."""
    x, i = draw(30, 50), torch.randint(-30, 30, (70,))
    rows, places = torch.randint(0, 30, (8,)), torch.randint(0, 50, (30, 6))
    check(lambda a, k: (a.sigmoid() * a.amax(1, keepdim=True))[k], x, i)
    check(lambda a, k: (a + torch.arange(50)).relu().gather(1, k), x, places)
    check(lambda a, k, m: torch.log_softmax(a, 1).gather(1, m).index_select(0, k), x, rows, places)
    check(lambda a, t: F.cross_entropy(a, t, ignore_index=3), x, torch.randint(0, 5, (30,)), rtol=1e-5, atol=1e-5)


GATHERED = {
    "as many as the row has": lambda x, i: x.gather(1, i),
    "a part of the row": lambda x, i: x[:, 3:].gather(1, i[:, :40].clamp(max=1000)),
    "the same for every row": lambda x, i: x[:, i[0]],
    "rows and sums": lambda x, i: x.gather(1, i).sum(1),
    "every second row": lambda x, i: x[::2].gather(1, i[::2]),
    "shifted rows": lambda x, i: x[1:].gather(1, i[:-1]),
    "computed first": lambda x, i: (x * 2).gather(1, (i + 1) % 1024),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gather_from_large_rows(name: str) -> None:
    check(GATHERED[name], draw(300, 1024), torch.randint(0, 1024, (300, 1024)), rtol=1e-5, atol=1e-4)


def test_gather_keeps_its_error() -> None:
    run = compiled(lambda a, k: a.exp()[k], (draw(5, 3), torch.tensor([0, 1])))
    with pytest.raises(IndexError):
        run(draw(5, 3), torch.tensor([0, 5]))


@pytest.mark.parametrize("name", ["gather", "scatter_add"])
@pytest.mark.parametrize("wrong", [-1, 1024, 2**40])
def test_one_index_out_of_range_is_found(name: str, wrong: int) -> None:
    x, i = draw(300, 1024), torch.randint(0, 1024, (300, 1024))
    run = compiled((lambda a, k: a.gather(1, k)) if name == "gather" else (lambda a, k: torch.zeros_like(a).scatter_add(1, k, a)), (x, i))
    run(x, i)
    i[299, 1023] = wrong
    with pytest.raises(IndexError):
        run(x, i)


def pooled_gradient(x: torch.Tensor) -> torch.Tensor:
    out, places = torch.ops.aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1])
    return torch.ops.aten.max_pool2d_with_indices_backward(out, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)


SHARED = {
    "one long loop": (lambda a, b: (a + b).exp() * 2, [(700, 700), (700, 700)]),
    "a transposed operand": (lambda a, b: a + b.t(), [(600, 500), (500, 600)]),
    "a long loop with padding": (lambda a: F.pad(a, (3, 2)).sin(), [(400_000,)]),
    "scatter into planes": (pooled_gradient, [(8, 16, 40, 40)]),
    "scatter of rows": (lambda a: torch.zeros(50, 96).index_add(0, torch.arange(3000) % 50, a), [(3000, 96)]),
    "zeros": (lambda a: torch.zeros_like(a), [(1000, 1000)]),
}


@pytest.mark.parametrize("name", SHARED)
def test_threads_change_nothing(name: str) -> None:
    """Work shared out among threads gives the bits that one thread gives, and eager's values."""
    fn, shapes = SHARED[name]
    inputs = [torch.randn(shape) for shape in shapes]
    run, before = compiled(fn, inputs), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = run(*inputs)
        torch.set_num_threads(4)
        shared = run(*inputs)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(alone[0], shared[0])
    torch.testing.assert_close(alone[0], fn(*inputs), rtol=1e-5, atol=1e-5)


def filled_and_read(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    filled = x * 2
    return filled + 1, filled.scatter_add(1, i, x), filled


FILLED = {
    "zeros": lambda x, i: torch.zeros_like(x).scatter_add(1, i, x),
    "values": lambda x, i: x.exp().scatter_add(1, i, x).relu(),
    "an input": lambda x, i: x.scatter_add(1, i, x),
    "more rows than are scattered to": lambda x, i: torch.zeros(80, 300).scatter_add(1, i, x),
    "a multiple of the rows": lambda x, i: torch.zeros(128, 300).scatter_add(1, i, x),
    "columns": lambda x, i: torch.zeros_like(x).scatter_add(0, i % 64, x),
    "twice": lambda x, i: torch.zeros_like(x).scatter_add(1, i, x).scatter_add(1, i.flip(1), x),
    "set, not added": lambda x, i: x.exp().scatter(1, torch.arange(300).expand(64, 300).flip(1), x),
    "a permuted target": lambda x, i: torch.zeros(300, 64).t().scatter_add(1, i, x),
    "the filled values are read too": filled_and_read,
}


@pytest.mark.parametrize("name", FILLED)
def test_scatter_onto_what_was_filled(name: str) -> None:
    """A piece may be filled right before something is scattered to it: never after, never twice, and all of it."""
    check(FILLED[name], draw(64, 300), torch.randint(0, 300, (64, 300)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("extent", [9, 49, 64, 130, 1100])
def test_extremes_of_rows_with_nan(extent: int, dtype: torch.dtype) -> None:
    """NaN in any lane wins over all others; rows without one take another way."""
    x = torch.randn(extent + 2, extent).to(dtype)
    x[torch.arange(extent), torch.arange(extent)] = torch.nan
    check(lambda a: (a.amax(1), a.amin(1), torch.softmax(a, 1)), x, rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
