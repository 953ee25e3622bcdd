"""Reductions over dims: one row each; variance and friends are two sums, which read the row from cache once fused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from inductor.ir import types
from inductor.ir.affine import ZERO, const
from inductor.ir.dims import is_one, no_elements, numel
from inductor.ir.expr import Expr, call, cast
from inductor.lowering.context import Context, Decline, as_stored, normal_dims
from inductor.lowering.formulas import minus, number, over, plus, square, times
from inductor.lowering.registry import add, lowers
from inductor.lowering.tensor import Tensor, dim_indices

Dims = Sequence[int] | int | None


def accumulate_type(dtype: torch.dtype) -> torch.dtype:
    """Half types accumulate in float32."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def chain_type(dtype: torch.dtype) -> torch.dtype:
    """What a value that passes through thousands of roundings is kept in: ATen's own scans use float64 for float32."""
    return torch.float64 if dtype == torch.float32 else accumulate_type(dtype)


def count(x: Tensor, dims: Dims) -> int:
    return numel([x.shape[k] for k in normal_dims(dims, x.ndim)])


def simple(kind: str, ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """One reduction whose result has the dtype of the fake value. In truth values a sum is any of them, a product all."""
    out = ctx.meta.dtype
    if x.ndim == 0:
        return ctx.map(sum_of_one if kind == "sum" else lambda v: v, [x], out)
    if out == torch.bool:
        kind = {"sum": "any", "prod": "all"}.get(kind, kind)
    wide = (chain_type if kind == "prod" else accumulate_type)(out)
    return ctx.reduce(kind, x, normal_dims(dim, x.ndim), keepdim, out, wide, pre=as_given(x, out))


def sum_of_one(v: Expr) -> Expr:
    """ATen adds to zero: 0.0 + -0.0 = 0.0."""
    return plus(v, number(v, 0)) if types.is_float(v.type) else v


def as_given(x: Tensor, dtype: torch.dtype) -> Callable[[Expr], Expr] | None:
    """What ATen does to the elements first: it converts them to the dtype of the result, and only then to what it accumulates in."""
    return None if x.dtype == dtype else lambda v: as_stored(v, dtype)


def _whole(kind: str, ctx: Context, x: Tensor, *, dtype: Any = None) -> Tensor:
    return simple(kind, ctx, x)


def _extreme(kind: str, ctx: Context, x: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    if no_elements(x.shape):
        raise Decline
    return simple(kind, ctx, x, dim, keepdim)


add("sum", partial(_whole, "sum"), "native", "reduction")
add("sum.dim_IntList", partial(simple, "sum"), "native", "reduction")
add("prod", partial(_whole, "prod"), "native", "reduction")
add("prod.dim_int", partial(simple, "prod"), "native", "reduction")
add("amax", partial(_extreme, "max"), "native", "reduction")
add("amin", partial(_extreme, "min"), "native", "reduction")
add("max", partial(_extreme, "max"), "native", "reduction")
add("min", partial(_extreme, "min"), "native", "reduction")


def _truth(kind: str, ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    if ctx.meta.dtype != torch.bool:
        raise Decline
    if x.ndim == 0 or dim == []:  # no dimension, where other reductions take all of them
        return ctx.map(lambda v: cast(v, "bool"), [x], torch.bool, x.dtype)
    return ctx.reduce(kind, x, normal_dims(dim, x.ndim), keepdim, torch.bool, x.dtype, pre=lambda v: cast(v, "bool"))


add("any any.dim any.dims", partial(_truth, "any"), "native", "reduction")
add("all all.dim all.dims", partial(_truth, "all"), "native", "reduction")


def _position(kind: str, ctx: Context, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape) or x.dtype == torch.bool:
        raise Decline
    return ctx.reduce(kind, x, normal_dims(dim, x.ndim), keepdim, torch.int64, x.dtype)


add("argmax", partial(_position, "argmax"), "native", "reduction")
add("argmin", partial(_position, "argmin"), "native", "reduction")


def _with_position(kind: str, ctx: Context, x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if x.ndim == 0 or no_elements(x.shape) or x.dtype == torch.bool:
        raise Decline
    return (
        ctx.reduce(kind, x, [dim], keepdim, x.dtype, accumulate_type(x.dtype)),
        ctx.reduce("arg" + kind, x, [dim], keepdim, torch.int64, x.dtype),
    )


add("max.dim", partial(_with_position, "max"), "decomposed", "reduction")
add("min.dim", partial(_with_position, "min"), "decomposed", "reduction")


@lowers("mean mean.dim")
def _mean(ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    return mean(ctx, x, dim, keepdim, ctx.meta.dtype)


def mean(ctx: Context, x: Tensor, dim: Dims, keepdim: bool, dtype: torch.dtype) -> Tensor:
    if x.ndim == 0:
        return ctx.map(sum_of_one, [x], dtype)
    items = count(x, dim)
    return ctx.reduce("sum", x, normal_dims(dim, x.ndim), keepdim, dtype, accumulate_type(dtype), post=lambda v: over(v, number(v, items)))


def moments(ctx: Context, x: Tensor, dims: Dims, dtype: torch.dtype, wide: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations, both with kept dims and in the accumulate type: two passes over the same row.

    Where the first pass may round, the second corrects it: `m' = m + sum(d) / n`, `S' = sum(d*d) - sum(d)**2 / n` for `d = x - m`
    (Chan, Golub, LeVeque 1983: the corrected two-pass algorithm). Rows of one value have that value as their mean, so they become 0.
    What is taken off is not rounded by itself, so that it is finite where `sum(d*d)` is infinite.
    """
    wide, items, over_dims = wide or accumulate_type(dtype), count(x, dims), normal_dims(dims, x.ndim)
    first = mean(ctx, x, dims, True, wide)
    deviation = ctx.map(minus, [x, first], wide)
    squares = ctx.reduce("sum", deviation, over_dims, True, wide, pre=square)
    if x.dtype != wide:
        return first, squares
    rest = ctx.reduce("sum", deviation, over_dims, True, wide)
    share = 1.0 / items if items else math.nan
    centre = ctx.map(lambda m, r: plus(m, over(r, number(r, items))), [first, rest], wide)

    def exact(s: Expr, r: Expr) -> Expr:
        return call("max", number(s, 0), call("fma", call("neg", r), times(r, share), s))

    return centre, ctx.map(exact, [squares, rest], wide)


def _variance(
    ctx: Context, x: Tensor, dim: Dims, correction: float | None, keepdim: bool, dtype: torch.dtype, root: bool
) -> tuple[Tensor, Tensor]:
    if x.ndim == 0 or not types.is_float(x.type):
        raise Decline
    items = count(x, dim)
    divisor = max(items - (1 if correction is None else correction), 0)
    # Squares of bfloat16 values, and sums of squares, leave the range of float32 where variances and their roots do not.
    centre, squares = moments(ctx, x, dim, dtype, torch.float64 if dtype == torch.bfloat16 else chain_type(dtype))

    def finish(value: Expr) -> Expr:
        variance = over(value, number(value, divisor))
        return call("sqrt", variance) if root else variance

    result = ctx.map(finish, [squares], dtype, squares.dtype)
    shape_fix = (lambda t: t) if keepdim else partial(drop_dims, normal_dims(dim, x.ndim))
    return shape_fix(result), shape_fix(centre)


def drop_dims(dims: list[int], x: Tensor) -> Tensor:
    """Remove dims of size one."""
    shape = tuple(n for k, n in enumerate(x.shape) if k not in dims)
    new = iter(dim_indices(shape))
    return x.remap(shape, [ZERO if k in dims else next(new) for k in range(x.ndim)])


@lowers("var.correction", "decomposed")
def _var(ctx: Context, x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return _variance(ctx, x, dim, correction, keepdim, ctx.meta.dtype, root=False)[0]


@lowers("std.correction", "decomposed")
def _std(ctx: Context, x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return _variance(ctx, x, dim, correction, keepdim, ctx.meta.dtype, root=True)[0]


def _one_unless_finite(value: Expr) -> Expr:
    return call("where", call("lt", call("abs", value), number(value, math.inf)), number(value, 0), number(value, 1))


def _with_mean(
    root: bool, ctx: Context, x: Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance or its root, and the mean.

    ATen's kernel for processors updates the mean value by value: behind an infinity the difference from it is NaN or infinite, and
    the mean NaN. So an infinity is the mean of a row only where it is the last value, and all before it are finite.
    """
    dtype, dims = ctx.meta[0].dtype, normal_dims(dim, x.ndim)
    spread, centre = _variance(ctx, x, dim, correction, True, dtype, root)
    if ctx.program.device == "cpu" and not no_elements(x.shape):
        found = ctx.reduce("sum", x, dims, True, torch.float32, accumulate_type(x.dtype), pre=_one_unless_finite)
        ends = [const(n - 1) if k in dims else i for k, (n, i) in enumerate(zip(x.shape, dim_indices(x.shape), strict=True))]

        def updated(mean: Expr, unfinite: Expr, end: Expr) -> Expr:
            last = _one_unless_finite(end)
            value = call("where", call("gt", last, number(last, 0)), end, mean)
            return call("where", call("gt", unfinite, last), number(mean, math.nan), value)

        centre = ctx.map(updated, [centre, found, x.remap(centre.shape, ends)], dtype, centre.dtype)
    elif centre.dtype != dtype:
        centre = ctx.map(lambda v: v, [centre], dtype)
    return (spread, centre) if keepdim else (drop_dims(dims, spread), drop_dims(dims, centre))


add("var_mean.correction", partial(_with_mean, False), "decomposed", "reduction")
add("std_mean.correction", partial(_with_mean, True), "decomposed", "reduction")


@lowers("logsumexp", "decomposed")
def _logsumexp(ctx: Context, x: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape) or not types.is_float(x.type):
        raise Decline
    dtype, dims = ctx.meta.dtype, normal_dims(dim, x.ndim)
    high = ctx.reduce("max", x, dims, True, dtype)
    finite = ctx.map(lambda v: call("where", call("isinf", v), number(v, 0), v), [high], dtype)
    # As ATen does: a tensor of every step, in the type of the result.
    shifted = ctx.map(lambda v, m: call("exp", as_stored(minus(v, m), dtype)), [x, finite], dtype)
    total = ctx.reduce("sum", shifted, dims, True, dtype, accumulate_type(dtype))
    result = ctx.map(lambda s, m: plus(as_stored(call("log", s), dtype), m), [total, finite], dtype)
    return result if keepdim else drop_dims(dims, result)


def norm_steps(p: float) -> tuple[Callable[[Expr], Expr], Callable[[Expr], Expr] | None]:
    """What is summed for a p-norm, and what the sum becomes."""
    if p == 0:
        return (lambda v: cast(call("ne", v, number(v, 0)), v.type)), None
    if p == 2:
        return square, lambda v: call("sqrt", v)
    if p == 1 or math.isinf(p):
        return (lambda v: call("abs", v)), None
    return (lambda v: call("pow", call("abs", v), number(v, p))), lambda v: call("pow", v, number(v, 1 / p))


@lowers("linalg_vector_norm", "decomposed")
def _vector_norm(ctx: Context, x: Tensor, p: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape) or not types.is_float(x.type):
        raise Decline
    kinds: dict[float, str] = {math.inf: "max", -math.inf: "min"}
    out = ctx.meta.dtype
    wide = accumulate_type(out)
    dims = normal_dims(dim, x.ndim)
    if p and all(is_one(x.shape[d]) for d in dims):
        p = 1  # of one element, whose square might not be finite
    pre, post = norm_steps(float(p))
    return ctx.reduce(kinds.get(p, "sum"), x, dims, keepdim, out, wide, pre=pre, post=post)


@lowers("_softmax", "decomposed")
def _softmax(ctx: Context, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape):
        raise Decline
    wide = accumulate_type(ctx.meta.dtype)
    high = ctx.reduce("max", x, [dim], True, wide)
    shifted = ctx.map(lambda v, m: call("exp", minus(v, m)), [x, high], wide)
    # One division per row: the sum lies between 1 and the row's length, so its reciprocal is as good as any float.
    scale = ctx.reduce("sum", shifted, [dim], True, wide, post=lambda s: over(number(s, 1), s))
    return ctx.map(times, [shifted, scale], ctx.meta.dtype)


@lowers("_log_softmax", "decomposed")
def _log_softmax(ctx: Context, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape):
        raise Decline
    wide = accumulate_type(ctx.meta.dtype)
    high = ctx.reduce("max", x, [dim], True, wide)
    shifted = ctx.map(minus, [x, high], wide)
    # ATen's kernel for the last dim keeps the sums and their logarithms in the type of the result, on processors.
    kept = ctx.meta.dtype if dim % x.ndim == x.ndim - 1 and ctx.program.device == "cpu" else wide

    def log(total: Expr) -> Expr:
        return as_stored(call("log", as_stored(total, kept)), kept)

    total = ctx.reduce("sum", shifted, [dim], True, wide, pre=lambda v: call("exp", v), post=log)
    return ctx.map(minus, [shifted, total], ctx.meta.dtype)


@lowers("_softmax_backward_data", "decomposed")
def _softmax_backward(ctx: Context, grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    if y.ndim == 0 or no_elements(y.shape):
        raise Decline
    wide = accumulate_type(y.dtype)
    product = ctx.map(times, [grad, y], wide)
    total = ctx.reduce("sum", product, [dim], True, wide)
    return ctx.map(lambda g, v, s: times(v, minus(g, s)), [grad, y, total], ctx.meta.dtype, wide)


@lowers("_log_softmax_backward_data", "decomposed")
def _log_softmax_backward(ctx: Context, grad: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    if y.ndim == 0 or no_elements(y.shape):
        raise Decline
    wide = accumulate_type(y.dtype)
    total = ctx.reduce("sum", grad, [dim], True, wide)
    return ctx.map(lambda g, v, s: minus(g, times(call("exp", v), s)), [grad, y, total], ctx.meta.dtype, wide)
