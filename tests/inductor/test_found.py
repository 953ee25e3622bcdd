"""Programs that came out wrong once, found by the generator and cut to their core: one case per cause."""

from __future__ import annotations

import math
import re

import pytest
import torch
import torch.nn.functional as F

import dynamo
from minifier.fuzz.draw.tensor_programs import Program
from tests.inductor.helpers import check as check_graph
from tests.inductor.helpers import compiled
from tests.inductor.program_check import check_program


def check(inputs: dict[str, str], body: str, outputs: str, grads: str = "") -> None:
    check_program(Program(tuple(inputs.items()), tuple(body.strip().splitlines()), tuple(outputs.split()), tuple(grads.split())))


@pytest.mark.parametrize(
    "body",
    [
        "v0 = x.exp().t()\nv1 = x.exp().t()",  # two views: each of a tensor of its own
        "v0 = torch.aminmax(x, dim=-1)[1]\nv1 = torch.aminmax(x, dim=-1)[1]",  # items of tuples
        "v0 = x.t().clone().t()\nv1 = x + 1",  # a copy that only a view of it shows
        "v0 = x.t().reshape(-1)\nv1 = x.t().contiguous()",  # `_unsafe_view`, whose schema hides that it is a view
    ],
)
def test_results_that_eager_makes_twice_do_not_share_memory(body):
    check({"x": "make((3, 4), torch.float32)"}, body, "v0 v1")


@pytest.mark.parametrize("shape", ["(0,)", "(3, 0)"])
@pytest.mark.parametrize("body", ["v0 = x.cummax(0)[0]", "v0 = x.cummin(-1)[0]", "v0 = x.expand_as(x)", "v0 = x[1:]", "v0 = x.mT[0:]"])
def test_what_is_the_input_itself_is_given_back(body, shape):
    """The gradient of the scans of nothing is the input, which needs a gradient."""
    check({"x": f"make({shape}, torch.float32)"}, body, "v0", "x")


def test_a_product_of_no_complex_numbers_is_differentiated():
    """Below a mode autograd expands its gradient, and eager refuses to see that as complex."""
    body = "v0 = torch.complex(x, x)\nv1 = torch.view_as_real(v0 @ v0.mT).prod(-1, True)"
    check({"x": "make((0, 5), torch.float32)"}, body, "v1", "x")


def test_equal_loops_without_points_are_not_aligned():
    body = "v0 = F.mse_loss(c, c, reduction='none').floor()\nv1 = torch.div(v0, a).flatten(0, 3)\nv2 = v0.expand([-1, 2, -1]).all(0)"
    check({"a": "make((2, 0, 1, 17), torch.float32)", "c": "make((0, 1, 17), torch.bfloat16)"}, body, "v1 v2")


def test_powers_of_a_number_are_row_major():
    check({"b": "make((2, 3), torch.float32, 'normal', 'transposed')"}, "v0 = 2 ** b\nv1 = 1 ** b\nv2 = b ** 2", "v0 v1 v2")


def test_a_scan_keeps_its_columns_apart_beside_a_sum():
    check({"c": "make((8, 16), torch.float64, 'positive', 'transposed')"}, "v0 = c[:-7].var()\nv1 = c.cumsum(-2)", "v0 v1")


@pytest.mark.parametrize("scan", ["x.cumprod(0)", "x.cumsum(0)", "x.logcumsumexp(0)", "y.cumsum(1)", "y.cumprod(0)"])
def test_a_scan_beside_a_sum_over_nothing_is_walked_in_order(scan):
    """A group with a member without points is split, and each of the others becomes a kernel of its own."""
    inputs = {"x": "make((4,), torch.float32)", "y": "make((4, 5), torch.float32)"}
    body = f"v0 = x[:0].sum()\nv1 = {scan}\nv2 = x.std(0, correction=0)\nv3 = y[:0].sum()\nv4 = y.std()"
    check(inputs, body, "v0 v1 v2 v3 v4")


@pytest.mark.parametrize(
    "body",
    [
        "a.unsqueeze(0).add_(0.5)\nv0 = a.neg().neg().argmax()",  # a reduction over one element
        "v0 = (a.unsqueeze(-1) * w).sum(-1)\na.mul_(2)",
        "v0 = a.unsqueeze(-1) * w\na.add_(1)",
    ],
)
@pytest.mark.parametrize("shape", ["()", "(1,)", "(5,)", "(100,)"])
def test_an_input_is_overwritten_after_inner_loops_read_it(shape, body):
    check({"a": f"make({shape}, torch.float32)", "w": f"make(({shape} + (7,)), torch.float32)"}, body, "v0")


def test_a_reduction_over_nothing_reads_nothing():
    check({"c": "make((2, 0), torch.float32, 'normal', 'expanded')"}, "v0 = torch.neg(c).sum((0, 1))", "v0")


def test_loops_without_points_are_not_run_beside_others():
    body = "v0 = torch.cosh(c)\nv1 = torch.hypot(b, c[1:])"
    check({"b": "make((1, 1), torch.bfloat16)", "c": "make((1, 65), torch.int16)"}, body, "v0 v1")


@pytest.mark.parametrize("shape", [(1, 5, 8), (5, 1, 8), (1, 5, 1, 8), (5, 8, 1)])
def test_a_dim_of_one_is_summed_beside_another(shape):
    body = "v0 = (x * y).sum(dim=tuple(range(x.dim() - 1)))\nv1 = x.argmax()"
    given = {"x": f"make({shape}, torch.float32)", "y": f"make(({', '.join(map(str, shape[:-1]))}, 1), torch.float32)"}
    check(given, body, "v0 v1", "x y")


def test_division_of_nothing_by_a_number():
    check({"a": "make((), torch.float32)", "d": "make((3, 0, 3, 2), torch.float32)"},
          "v0 = torch.div(d.double(), a, rounding_mode='trunc')", "v0", "a")  # fmt: skip


def test_an_operator_reads_a_view_of_a_result_without_elements():
    body = """
v0 = a.expand([1, 0, 0])
v1 = torch.logical_and(v0, v0.nansum((0, 1)))
v2 = torch.stack([v0, v1], 0)
v3 = a.sum(1, keepdim=True)
v4 = v1.mT
v5 = v3.index_fill(2, v2.flatten().long() % 1, 1)"""
    check({"a": "make((1, 1, 1), torch.int64)"}, body, "v4 v5")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_neighbours_of_zero(dtype):
    check({"a": f"make((9,), torch.{dtype}, 'zeros')", "b": f"make((9,), torch.{dtype}, 'simple')"}, "v0 = torch.nextafter(a, b)", "v0")


def test_a_number_is_copied_into_a_slice():
    check({"a": "make((4, 3), torch.float32)"}, "a[:-1].copy_(0.5)\na[:, 0].copy_(2)\nv0 = a + 1", "v0")


def test_rsub_lies_like_its_second_operand():
    check({"a": "make((2, 7), torch.float16)", "b": "make((2, 7), torch.float32, 'normal', 'reversed')"}, "v0 = torch.rsub(b, a)", "v0")


@pytest.mark.parametrize("op", [torch.heaviside, torch.special.zeta])
@pytest.mark.parametrize("phantom", [False, True], ids=["", "fakes_of_cuda_before"])
def test_a_missing_derivative_is_an_error_of_the_backward_only(op, phantom, monkeypatch):
    monkeypatch.setattr("dynamo.fake.tensor._phantom", {"cpu": False, "meta": False, "cuda": phantom})
    x = torch.rand(3, requires_grad=True)
    found = dynamo.compile(lambda t: op(t, t) * 2, backend="inductor", fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="is not implemented") as expected:
        op(x, x).sum().backward()
    with pytest.raises(RuntimeError, match=re.escape(str(expected.value))) as met:
        found.sum().backward()
    assert met.type is expected.type


def test_position_of_the_largest_follows_the_order_of_the_shape():
    inputs = {"c": "make((17, 33, 2), torch.int32, 'positive', 'reversed', 2)"}
    check(inputs, "v0 = c.argmax()\nv1 = c.argmin(1)\nv2 = c.max(0)[1]", "v0 v1 v2")


def test_expanded_inputs_and_inputs_with_gaps_are_interpreted():
    check({"a": "make((4, 8, 1), torch.int8, 'normal', 'expanded')", "b": "make((5,), torch.float64, 'normal', 'strided')"},
          "v0 = a.mT\nv1 = b.unfold(0, 2, 2)\nv2 = b.exp()", "v0 v1 v2")  # fmt: skip


def test_an_assignment_to_nothing():
    check({"d": "make((1, 1), torch.float32)"}, "d[0:0:3, :] = True\nv0 = F.relu(d)", "v0 d")


def test_a_divisor_of_negative_zero():
    check({"a": "make((2,), torch.float32)"}, "v0 = a / -0.0\nv1 = a * -0.0", "v0 v1")


@pytest.mark.parametrize("shape", [(), (1,), (5, 1), (1, 5)])
def test_sums_of_one_negative_zero_are_positive(shape):
    def f(x):
        found = [x.sum(), x.sum(-1), x.mean(0), x.cumsum(0), x.cumsum(-1), x.cumprod(0), x.prod(), x.amax(), x.nansum()]
        return [t.signbit() for t in (*found, x.sum() * 1, x.half().sum(-1))]

    x = torch.full(shape, -0.0)
    for found, expected in zip(dynamo.compile(f)(x), f(x), strict=True):
        assert torch.equal(found, expected)


def test_roll_of_a_dim_that_is_named_twice():
    body = "v0 = a.roll((1, -2), (1, -1))\nv1 = a.roll((1, 1, 1), (0, 1, 0))\nv2 = a[:0].roll(1, 7)"
    check({"a": "make((3, 5), torch.float32)"}, body, "v0 v1 v2")


def test_softmax_of_no_elements_takes_any_type():
    check({"a": "make((2, 0), torch.float32)"}, "v0 = a.isnan()\nv1 = v0.log_softmax(0)\nv2 = v0.long().softmax(0)", "v1 v2")


OUT_OF_RANGE = {
    "gather": (lambda x, i: x.gather(1, i), [[-1]]),
    "gather from one": (lambda x, i: x[:, :1].gather(1, i), [[1]]),
    "index_select": (lambda x, i: x.index_select(0, i), [-1]),
    "embedding": (lambda x, i: torch.nn.functional.embedding(i, x), [5]),
    "scatter": (lambda x, i: x.scatter(0, i, x), [[-1]]),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), [[5]]),
    "index_add": (lambda x, i: x.index_add(0, i, x[:1]), [-1]),
    "index": (lambda x, i: x[i], [-6]),
    "index of one": (lambda x, i: x[:1][i], [1]),
    "nll_loss": (lambda x, i: torch.nn.functional.nll_loss(x, i), [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_an_index_out_of_range_raises_as_in_eager(name):
    """Only `x[i]` and its kin count negative indices from the end."""
    fn, index = OUT_OF_RANGE[name]
    x, i = torch.randn(5, 4), torch.tensor(index)
    with pytest.raises((IndexError, RuntimeError)):
        fn(x, i)
    with pytest.raises(IndexError, match="index out of range"):
        compiled(fn, [x, i])(x, i)


def test_negative_indices_count_from_the_end():
    x, i = torch.randn(5, 4), torch.tensor([-1, 2, -5])
    check_graph(lambda x, i: (x[i], x.take(i), x.index_fill(0, i, 2.0), x.index_put((i,), x[:3])), x, i)


@pytest.mark.parametrize("p", [2.0, 3.0, 0.5, 0.0, -1.0])
def test_the_norm_of_one_element_is_its_absolute_value(p):
    x = torch.tensor([[1e30, -3.0, 0.0]])
    check_graph(lambda x: (torch.linalg.vector_norm(x, p, [0]), torch.linalg.vector_norm(x[:, :1], p)), x)


@pytest.mark.parametrize("extent", [4, 5, 8])
def test_a_patch_is_transposed_after_it_is_written(extent):
    """C lets a compiler assume that floats and integers share no memory: a patch was copied as integers before its floats were there."""
    x, w, v = torch.randn(2, 2, extent, extent), torch.randn(2, 2, 3, 3), torch.randn(2, 1, 1, 1)
    b = torch.randn(2, requires_grad=True)

    def f(x, w, b, v):
        return F.softplus(x + torch.conv2d(x, w, b, (1, 1), (1, 1))), torch.conv2d(x, v, b, (1, 1), (0, 0), (1, 1), 2)

    torch.testing.assert_close(dynamo.compile(f)(x, w, b, v), f(x, w, b, v))


def test_an_input_is_overwritten_after_loops_that_read_what_is_made_beside():
    """The loops over the repeated value wait for the sum that the write stands beside, and the write has to wait for them."""
    body = "v0 = a.neg().neg()\nv1 = v0.expand(2, 3).neg()\na.unsqueeze(0).add_(v0)\nv2 = v1 + a"
    check({"a": "make((), torch.float32)"}, body, "v2")


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_of_two_dtypes_are_computed_in_the_wider_one(reduction):
    x, y = torch.linspace(-2, 2, 12).bfloat16(), torch.linspace(-1, 3, 12).square()
    losses = (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss)  # the last gives what the first operand is

    def f(x, y):
        return [loss(a, b, reduction=reduction) for loss in losses for a, b in ((x, y), (y, x))]

    torch.testing.assert_close(dynamo.compile(f)(x, y), f(x, y))


def test_the_slope_of_hardsigmoid_is_a_sixth_in_float32():
    x = torch.tensor([0.1, 2.0, 5.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(dynamo.compile(F.hardsigmoid)(x).sum(), x)
    assert torch.equal(slope, *torch.autograd.grad(F.hardsigmoid(x).sum(), x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_infinity_is_the_mean_beside_a_variance_only_where_it_is_last(dtype):
    x = torch.randn(8, 5).to(dtype)
    inf, nan = math.inf, math.nan
    for row, ends in enumerate([(0.5, inf), (0.5, -inf), (inf, 0.5), (inf, inf), (inf, -inf), (nan, inf), (inf, nan)]):
        x[row, 0], x[row, -1] = ends
    x[7] = torch.linspace(1, 2, 5, dtype=dtype) * (torch.finfo(dtype).max ** 0.5 / 4)  # finite, and in float64 more than float32 holds

    def f(x):
        rest = x[:, None, -1:].expand(8, 2, 1)
        return [*torch.var_mean(x, 1), *torch.std_mean(x, -1, keepdim=True), *torch.var_mean(x.mT, 0), *torch.var_mean(rest, (1, 2))]

    torch.testing.assert_close(dynamo.compile(f)(x), f(x), equal_nan=True)


def test_logits_of_another_dtype_than_the_targets_round_as_in_eager():
    x, y = torch.linspace(-3, 3, 40).bfloat16(), torch.linspace(0, 1, 40)

    def f(x, y):
        return [F.binary_cross_entropy_with_logits(a, b, reduction=r) for a, b in ((x, y), (y, x)) for r in ("none", "mean", "sum")]

    torch.testing.assert_close(dynamo.compile(f)(x, y), f(x, y))


SUMS_OF_TRUTH = {
    "scatter_add": lambda b, i: b.scatter_add(0, i, b),
    "index_put": lambda b, i: b.index_put((i,), b, accumulate=True),
    "index_add": lambda b, i: b.index_add(0, i, b),
    "sum": lambda b, i: torch.sum(b, 0, dtype=torch.bool),
    "sum of numbers": lambda b, i: torch.sum(b * 0.25, 0, keepdim=True, dtype=torch.bool),
    "prod": lambda b, i: torch.prod((b + 1) * 0.25, 0, dtype=torch.bool),
}


@pytest.mark.parametrize("name", SUMS_OF_TRUTH)
def test_sums_of_truth_values_are_one(name):
    b, i = torch.tensor([True, False, True]), torch.tensor([0, 0, 1])
    fn = SUMS_OF_TRUTH[name]
    assert torch.equal(dynamo.compile(lambda: fn(b, i).sum(), fullgraph=True)(), fn(b, i).sum())


@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod])
def test_running_sums_of_truth_values_are_refused_as_in_eager(scan):
    with pytest.raises(NotImplementedError):
        dynamo.compile(lambda b: scan(b, 0, dtype=torch.bool))(torch.tensor([True, False]))


NO_ELEMENTS = [
    f"{loss}(a, torch.zeros_like(a), reduction={r!r})" for loss in ("huber_loss", "smooth_l1_loss") for r in ("mean", "sum", "none")
]


@pytest.mark.parametrize("loss", ["logsigmoid(a)", "mse_loss(a, torch.zeros_like(a))", "mse_loss(a, a)", "huber_loss(a, a)", *NO_ELEMENTS])
def test_losses_of_no_elements_have_gradients(loss):
    check({"a": "make((2, 0), torch.float32)"}, f"v0 = F.{loss}", "v0", "a")


@pytest.mark.parametrize("loss", [F.smooth_l1_loss, F.huber_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_of_losses_over_infinities(loss, reduction):
    """The distance of two equal infinities is NaN, and so is the gradient there; that of two different ones is one."""
    values = [-math.inf, math.inf, math.nan, 0.0, 1.0, -2.0]

    def gradients(loss):
        x, y = (v.flatten().requires_grad_() for v in torch.meshgrid(torch.tensor(values), torch.tensor(values), indexing="ij"))
        return torch.autograd.grad(loss(x, y, reduction=reduction).sum(), [x, y])

    torch.testing.assert_close(gradients(dynamo.compile(loss)), gradients(loss), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [0.5, -0.5])
def test_powers_are_roots_only_where_eager_takes_one(dtype, exponent):
    x = torch.tensor([-math.inf, -0.0, 0.0, math.inf, 2.0, -2.0, math.nan] * 7).to(dtype)

    def f(x):
        return x**exponent, torch.pow(x, torch.full_like(x, exponent)), torch.pow(x, torch.tensor(exponent))

    found, expected = dynamo.compile(f)(x), f(x)
    torch.testing.assert_close(found, expected, equal_nan=True)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan())


def test_rows_of_two_nearly_equal_values_are_normalised():
    check({"a": "make((130, 2, 2, 2), torch.bfloat16)"}, "v0 = F.layer_norm(a, a.shape[-1:])", "v0")


@pytest.mark.parametrize("body", ["v1 = a.amax((0, 1))", "v0 = a.reshape([-1])\nv1 = v0[1:]", "v1 = a.t().exp()", "v1 = a.expand(2, 3, 2)"])
def test_zeros_without_memory_as_gradients(body):
    check({"a": "make((3, 2), torch.float32)"}, f"{body}\nv2 = torch.sgn(v1) * 2\nv3 = v1.round() + v1.to(torch.bool)", "v2 v3", "a")


def test_product_with_a_number_is_taken_before_that_with_the_second_tensor():
    def f(x, a):
        return torch.addcmul(x, a, a, value=0.5), torch.addcmul(x, a, -a, value=0.25), torch._foreach_addcmul([x], [a], [a], 0.5)[0]

    x, a = torch.tensor([0.0, 1.0, -math.inf] * 11), torch.tensor([2e19, 3e19, 2.2e19] * 11)
    torch.testing.assert_close(dynamo.compile(f)(x, a), f(x, a))


def test_a_part_of_an_input_that_shows_an_element_twice_is_written():
    def f(x):
        x[:1].mul_(2)
        return x + 1

    found, expected = torch.ones(1).expand(7), torch.ones(1).expand(7)
    with dynamo.config.patch(suppress_errors=False):
        result = dynamo.compile(f, fullgraph=True)(found)
    torch.testing.assert_close((result, found), (f(expected), expected))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_views_of_what_an_out_argument_resizes_keep_their_shapes():
    def larger(x):
        y = x[:2].repeat(2)
        part, rows = y[3:], y.view(2, 2)
        torch.cat([x, x + 1], out=y)
        rows.add_(1)
        return part, part * 2, rows, y

    def smaller(x):
        y = x.repeat(4)
        part = y[4:]
        torch.mul(x[:2], 3, out=y)
        return part, y

    x = torch.arange(3.0)
    with dynamo.config.patch(suppress_errors=False):
        for f in (larger, smaller):
            torch.testing.assert_close(dynamo.compile(f, fullgraph=True)(x), f(x))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [False, True])
def test_points_that_are_missing_in_a_grid(mode, padding, aligned):
    def f(x, grid):
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=aligned)

    x, grid = torch.randn(2, 3, 5, 7), torch.rand(2, 6, 5, 2) * 2.4 - 1.2
    grid[0, 0, 0, 0] = grid[0, 1, 1, 1] = grid[1, 3, 4, 0] = torch.nan
    grid[0, 2, 2] = torch.nan
    torch.testing.assert_close(dynamo.compile(f)(x, grid), f(x, grid), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_logarithms_of_gamma_functions_round_every_step_in_halves(dtype):
    x = torch.linspace(3, 40, 100).to(dtype)
    for p in (1, 2, 3):
        assert torch.equal(dynamo.compile(lambda x, p=p: torch.mvlgamma(x, p) * 1)(x), torch.mvlgamma(x, p))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64], ids=str)
def test_sums_and_products_convert_what_they_are_given_to_halves_first(dtype, given):
    x = torch.tensor([[7e4, -3e38, 1.001, 1e-9], [-7e4, 3e38, 1.002, 3e-8], [1.5, -1e38, 1.003, 2.0]], dtype=torch.float64)
    x = x.clamp(-9e18, 9e18).to(given)

    def f(x):
        return x.sum(0, dtype=dtype), x.prod(0, dtype=dtype), x.T.sum(1, dtype=dtype), torch.sum(x, 0, out=torch.empty(0, dtype=dtype))

    def missing(x):
        return x.nansum(0, dtype=dtype), (x / 0).nansum(1, dtype=dtype)

    for g in (f, missing):
        torch.testing.assert_close(dynamo.compile(g, fullgraph=True)(x), g(x), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.bool, torch.uint8, torch.int16, torch.int64], ids=str
)
def test_conversions_to_halves_and_back_round(dtype, half):
    x = torch.tensor([0.0, -0.291015625, 1.001, 255.0, -0.0, 1e-6, 200.4, 3.0]).repeat(5).to(dtype)

    def f(x):
        there = x.to(half)
        return there.to(dtype), there * there.to(dtype), there.to(torch.bfloat16).to(half), torch.minimum(x, there[1])

    assert all(map(torch.equal, dynamo.compile(f, fullgraph=True)(x), f(x)))


def test_results_that_are_repeated_in_place_are_written_once():
    body = "v0 = x.t().reshape(2, 6).expand(3, 2, 6)\nv1 = x.t().reshape(12)[:, None].expand(12, 5)"
    check({"x": "make((4, 3), torch.float32)"}, body, "v0 v1")
    check({"x": "make((4, 0), torch.float32)"}, "v0 = x.t().reshape(0, 3)[None].expand(5, 0, 3)", "v0")


def test_a_view_of_joined_parts_of_which_one_dim_is_split_shares_their_memory():
    body = "v0 = torch.ne(b, b)\nv1 = torch.cat([v0, b, v0], 0)\nv2 = v1.view([2, 18, 1])\nv3 = v2.expand([2, -1, 3])\nv4 = v1 - v1"
    check({"b": "make((3, 4), torch.int64, 'normal', 'transposed', 1)"}, body, "v3 v4")


def test_dims_of_one_element_have_the_strides_that_the_next_result_is_laid_out_by():
    inputs = {"b": "make((4, 4, 33, 1), torch.float64, 'special', 'transposed', 1)", "c": "make((2, 33), torch.float64)"}
    for scan in ("b.cumprod(0)", "b.cumsum(0)", "b.flip([0])", "b.sort(2)[0]", "b.rot90(2, [0, 2])", "b.nan_to_num()", "b.deg2rad()"):
        body = f"v0 = {scan}\nv1 = torch.einsum('...i,...i->...', v0.unsqueeze(3), F.elu(c))\nv2 = v1 * 2\nv3 = v0.mT.sum(-1) * c[:1]"
        check(inputs, body, "v1 v2 v3")


@pytest.mark.parametrize("length", [3, 4, 17, 100, 5000])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_variance_of_what_has_no_square_is_infinite(length, at, dim):
    """What corrects the mean, and what joins the moments of parts, is infinite too: it must not be taken off, or be times zero."""
    x = torch.ones(3, length, dtype=torch.float64)
    x[1, at], x[2, -1 - at] = 1e173, -1e160
    x = x if dim else x.t().contiguous()
    want = torch.tensor([0.0, math.inf, math.inf], dtype=torch.float64)
    for found in (*dynamo.compile(lambda x: (x.var(dim), x.std(dim)), backend="inductor")(x), x.var(dim)):
        assert torch.equal(found, want)
