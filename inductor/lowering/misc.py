"""Ops that are a few rows of the other families put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir import types
from inductor.ir.affine import Index
from inductor.ir.dims import as_shape, no_elements
from inductor.ir.expr import Expr, call, cast, const, index_value
from inductor.lowering.concat import padded_load
from inductor.lowering.context import Context, Decline, as_stored, normal_dims
from inductor.lowering.formulas import minus, number, over, plus, times
from inductor.lowering.pointwise import unary
from inductor.lowering.reduction import Dims, accumulate_type, simple
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor, dim_indices
from inductor.lowering.view import reshape, slice_dim, wrap


@lowers("celu")
def _celu(ctx: Context, x: Tensor, alpha: float = 1.0) -> Tensor:
    return unary(lambda v: call("where", call("gt", v, number(v, 0)), v, times(call("expm1", over(v, number(v, alpha))), alpha)), ctx, x)


@lowers("round.decimals")
def _round(ctx: Context, x: Tensor, *, decimals: int = 0) -> Tensor:
    if not types.is_float(x.type) or decimals == 0 or abs(decimals) > 30:  # a scale that no type holds
        raise Decline
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return unary(lambda v: over(call("round", times(v, scale)), number(v, scale)), ctx, x)
    return unary(lambda v: times(call("round", over(v, number(v, scale))), scale), ctx, x)


@lowers("nansum")
def _nansum(ctx: Context, x: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    if not types.is_float(x.type) or x.ndim == 0:
        raise Decline
    out = ctx.meta.dtype

    def pre(v: Expr) -> Expr:
        v = as_stored(v, out)
        return call("where", call("isnan", v), number(v, 0), v)

    return ctx.reduce("sum", x, normal_dims(dim, x.ndim), keepdim, out, accumulate_type(out), pre=pre)


@lowers("count_nonzero count_nonzero.dim_IntList")
def _count_nonzero(ctx: Context, x: Tensor, dim: Dims = None) -> Tensor:
    if x.ndim == 0:
        raise Decline
    ones = ctx.make(x.shape, torch.int64, lambda where: cast(cast(x.load(where), "bool"), "i64"), ctx.strides_like(x.shape, [x]))
    return ctx.reduce("sum", ones, normal_dims(dim, x.ndim), False, torch.int64)


@lowers("aminmax", "decomposed")
def _aminmax(ctx: Context, x: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if no_elements(x.shape) or x.ndim == 0:
        raise Decline
    dims, wide = normal_dims(dim, x.ndim), accumulate_type(x.dtype)
    return ctx.reduce("min", x, dims, keepdim, x.dtype, wide), ctx.reduce("max", x, dims, keepdim, x.dtype, wide)


@lowers("_safe_softmax", "decomposed")
def _safe_softmax(ctx: Context, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    if x.ndim == 0 or no_elements(x.shape) or not types.is_float(x.type):
        raise Decline
    wide = accumulate_type(ctx.meta.dtype)
    high = ctx.reduce("max", x, [dim], True, wide)
    # A row of -inf has no softmax; it gives zeros here.
    shifted = ctx.map(
        lambda v, m: call("where", call("eq", m, number(m, -math.inf)), number(v, 0), call("exp", minus(v, m))), [x, high], wide
    )
    total = ctx.reduce("sum", shifted, [dim], True, wide)
    return ctx.map(lambda e, s: call("where", call("eq", s, number(s, 0)), e, over(e, s)), [shifted, total], ctx.meta.dtype)


@lowers("trace")
def _trace(ctx: Context, x: Tensor) -> Tensor:
    if no_elements(x.shape):
        raise Decline
    size = min(x.shape)
    (along,) = dim_indices((size,))
    return simple("sum", ctx, x.remap((size,), [along, along]))


@lowers("rot90")
def _rot90(ctx: Context, x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    a, b = wrap(dims[0], x.ndim), wrap(dims[1], x.ndim)
    turns = k % 4
    shape = as_shape(ctx.meta.shape)

    def source(where: Sequence[Index]) -> list[Index]:
        place = list(where)
        last_a, last_b = Index(x.shape[a] - 1), Index(x.shape[b] - 1)
        moves = {
            0: (where[a], where[b]),
            1: (where[b], last_b - where[a]),
            2: (last_a - where[a], last_b - where[b]),
            3: (last_a - where[b], where[a]),
        }
        place[a], place[b] = moves[turns]
        return place

    return ctx.make(shape, x.dtype, lambda where: x.load(source(where)), ctx.meta_strides(shape))


@lowers("diagonal_scatter")
def _diagonal_scatter(ctx: Context, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    if source.dtype != x.dtype:
        raise Decline
    a, b = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    if no_elements(source.shape):
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        along = where[a] - max(-offset, 0)
        rest = [w for k, w in enumerate(where) if k not in (a, b)]
        on = call("eq", index_value(where[b] - where[a]), const(offset, "i64"))
        old = x.load(where)
        return call("where", on, padded_load(source, [*rest, along], old), old)

    return ctx.make(x.shape, x.dtype, body)


@lowers("unsafe_split.Tensor unsafe_split_with_sizes unsafe_chunk")
def _unsafe_split(ctx: Context, x: Tensor, sizes: Any, d: int = 0) -> tuple[Tensor, ...]:
    at, start, parts = wrap(d, x.ndim), 0, []
    for meta in ctx.meta:
        length = as_shape(meta.shape)[at]
        parts.append(ctx.copy(slice_dim(x, at, start, length), as_shape(meta.stride())))
        start += length
    return tuple(parts)


@lowers("narrow_copy")
def _narrow_copy(ctx: Context, x: Tensor, d: int, start: int, length: int) -> Tensor:
    at = wrap(d, x.ndim)
    if not isinstance(start, int):
        raise Decline
    return ctx.copy(slice_dim(x, at, start % max(x.shape[at], 1) if start < 0 else start, length))


@lowers("linspace")
def _linspace(ctx: Context, start: float, end: float, steps: int, **options: Any) -> Tensor:
    dtype = ctx.meta.dtype
    if not dtype.is_floating_point or not all(isinstance(v, (int, float)) for v in (start, end)):
        raise Decline
    kind = types.compute(types.of_torch(dtype))
    if steps < 2:
        return ctx.make((steps,), dtype, lambda where: const(start, kind))
    step = (end - start) / (steps - 1)

    def body(where: tuple[Index, ...]) -> Expr:
        # From both ends, as eager does, so that the last value is exact.
        position = index_value(where[0])
        first = plus(times(cast(position, kind), step), start)
        back = call("sub", const(steps - 1, "i64"), position)
        last = minus(const(end, kind), times(cast(back, kind), step))
        return call("where", call("lt", position, const(steps // 2, "i64")), first, last)

    return ctx.make((steps,), dtype, body)


@lowers("isin.Tensor_Scalar")
def _isin_scalar(ctx: Context, x: Tensor, value: float, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    return ctx.map(lambda v: call("ne" if invert else "eq", v, number(v, value)), [x], torch.bool, x.dtype)


@lowers("addr")
def _addr(ctx: Context, x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """`beta * x + alpha * a * b`, from left to right; ATen computes in the type of the result, 16-bit ones included."""
    dtype = ctx.meta.dtype
    if dtype == torch.bool or beta == 0:
        raise Decline

    def step(value: Expr) -> Expr:
        return as_stored(value, dtype)

    def scaled(value: Expr, factor: float) -> Expr:
        return value if factor == 1 else step(times(value, step(number(value, factor))))

    column = reshape(a, (a.shape[0], 1))
    return ctx.map(lambda v, p, q: plus(scaled(v, beta), step(times(scaled(p, alpha), q))), [x, column, b], dtype)


@lowers("linalg_cross")
def _cross(ctx: Context, x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Component i is `x[i+1] * y[i+2] - x[i+2] * y[i+1]`, numbers modulo 3; ATen rounds the products to the type of the result."""
    shape, dtype = as_shape(ctx.meta.shape), ctx.meta.dtype
    at = dim % len(shape)

    def turned(t: Tensor, where: tuple[Index, ...], by: int) -> Expr:
        return t.broadcast_load([(w + by) % 3 if k == at else w for k, w in enumerate(where)])

    def body(where: tuple[Index, ...]) -> Expr:
        first, second = (as_stored(times(turned(x, where, i), turned(y, where, 3 - i)), dtype) for i in (1, 2))
        return minus(first, second)

    return ctx.make(shape, dtype, body)
