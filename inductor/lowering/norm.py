"""Normalisations, forward and backward, as sums and element-wise ops over the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.dims import no_elements, numel
from inductor.ir.expr import Expr, call
from inductor.lowering.context import Context, Decline
from inductor.lowering.formulas import minus, number, over, plus, rsqrt, times
from inductor.lowering.reduction import accumulate_type, drop_dims, moments
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor
from inductor.lowering.view import expand, reshape


def as_channel(x: Tensor | None, ndim: int) -> Tensor | None:
    """A [C] tensor shaped to broadcast over [N, C, ...]."""
    return None if x is None else reshape(x, (1, x.shape[0]) + (1,) * (ndim - 2))


def apply(
    ctx: Context, x: Tensor, centre: Tensor, inverse: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """`(x - centre) * inverse * weight + bias`."""
    operands = [x, centre, inverse, *(t for t in (weight, bias) if t is not None)]

    def fn(v: Expr, m: Expr, r: Expr, *rest: Expr) -> Expr:
        value, left = times(minus(v, m), r), list(rest)
        if weight is not None:
            value = times(value, left.pop(0))
        return plus(value, left.pop(0)) if bias is not None else value

    return ctx.map(fn, operands, dtype, accumulate_type(x.dtype))


def apply_line(
    ctx: Context, x: Tensor, centre: Tensor, inverse: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """The same as `x * slope + (bias - centre * slope)`: what ATen computes per channel, and its digits where x has few."""
    wide = accumulate_type(dtype)
    slope = inverse if weight is None else ctx.map(times, [inverse, weight], wide)
    terms = [centre, slope] if bias is None else [centre, slope, bias]
    start = ctx.map(lambda m, s, *b: minus(b[0] if b else number(m, 0), times(m, s)), terms, wide)
    return ctx.map(lambda v, s, b: plus(times(v, s), b), [x, slope, start], dtype, wide)


def inverse_deviation(ctx: Context, squares: Tensor, items: int, eps: float) -> Tensor:
    return ctx.map(lambda s: rsqrt(plus(times(s, 1.0 / items), eps)), [squares], squares.dtype)


@lowers("native_layer_norm", "decomposed")
def _layer_norm(
    ctx: Context, x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    if no_elements(x.shape):
        raise Decline
    metas = ctx.meta
    dims = list(range(x.ndim - len(shape), x.ndim))
    wide = accumulate_type(x.dtype)
    ctx.meta = None
    centre, squares = moments(ctx, x, dims, x.dtype)
    inverse = inverse_deviation(ctx, squares, numel(shape), eps)
    ctx.meta = metas[0]
    out = apply(ctx, x, centre, inverse, weight, bias, x.dtype)
    stats = [t if m.dtype == wide else ctx.map(lambda v: v, [t], m.dtype) for t, m in zip((centre, inverse), metas[1:], strict=True)]
    return out, *stats


@lowers("native_layer_norm_backward", "decomposed")
def _layer_norm_backward(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    shape: Sequence[int],
    centre: Tensor,
    inverse: Tensor,
    weight: Tensor | None,
    bias: Any,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    if no_elements(x.shape):
        raise Decline
    first = x.ndim - len(shape)
    inner, outer, items = list(range(first, x.ndim)), list(range(first)), numel(shape)
    wide = accumulate_type(x.dtype)
    metas, ctx.meta = ctx.meta, None
    normal = ctx.map(lambda v, m, r: times(minus(v, m), r), [x, centre, inverse], wide)
    scaled = grad if weight is None else ctx.map(times, [grad, weight], wide)
    out: list[Tensor | None] = [None, None, None]
    if mask[0]:
        total = ctx.reduce("sum", scaled, inner, True, wide)
        product = ctx.map(times, [scaled, normal], wide)
        dot = ctx.reduce("sum", product, inner, True, wide)

        def fn(g: Expr, h: Expr, s: Expr, d: Expr, r: Expr) -> Expr:
            return times(minus(g, times(plus(s, times(h, d)), 1.0 / items)), r)

        ctx.meta = metas[0]
        out[0] = ctx.map(fn, [scaled, normal, total, dot, inverse], x.dtype, wide)
        ctx.meta = None
    for position, wanted in ((1, mask[1]), (2, mask[2])):
        if wanted:
            term = ctx.map(times, [grad, normal], wide) if position == 1 else grad
            out[position] = ctx.reduce("sum", term, outer, False, metas[position].dtype, wide) if outer else term
    return tuple(out)


@lowers("native_group_norm", "decomposed")
def _group_norm(
    ctx: Context, x: Tensor, weight: Tensor | None, bias: Tensor | None, batch: int, channels: int, area: int, groups: int, eps: float
) -> tuple[Tensor, ...]:
    if no_elements(x.shape):
        raise Decline
    metas, ctx.meta = ctx.meta, None
    wide, per_group = accumulate_type(x.dtype), channels // groups
    grouped = reshape(x, (batch, groups, per_group, area))
    centre, squares = moments(ctx, grouped, [2, 3], x.dtype)
    inverse = inverse_deviation(ctx, squares, per_group * area, eps)
    spread = [reshape(expand(t, (batch, groups, per_group, 1)), (batch, channels) + (1,) * (x.ndim - 2)) for t in (centre, inverse)]
    ctx.meta = metas[0]
    out = apply(ctx, x, spread[0], spread[1], as_channel(weight, x.ndim), as_channel(bias, x.ndim), x.dtype)
    stats = [drop_dims([2, 3], t) for t in (centre, inverse)]
    return out, *(t if m.dtype == wide else ctx.map(lambda v: v, [t], m.dtype) for t, m in zip(stats, metas[1:], strict=True))


def batch_statistics(ctx: Context, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, inverse deviation and sum of squares per channel, shaped [1, C, 1, ...]."""
    dims = [k for k in range(x.ndim) if k != 1]
    centre, squares = moments(ctx, x, dims, x.dtype)
    return centre, inverse_deviation(ctx, squares, numel(x.shape) // x.shape[1], eps), squares


def flat_channel(x: Tensor) -> Tensor:
    return drop_dims([k for k in range(x.ndim) if k != 1], x)


def _batch_norm(
    ctx: Context,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None],
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    """out, saved mean, saved inverse deviation, new running mean, new running variance."""
    if no_elements(x.shape) or x.ndim < 2:
        raise Decline
    metas, ctx.meta = ctx.meta, None
    wide = accumulate_type(x.dtype)
    new_mean: Tensor | None = running[0]
    new_var: Tensor | None = running[1]
    if training:
        if metas[1].dtype != wide:  # ATen's statistics of 16-bit types are sums of rounded terms
            raise Decline
        centre, inverse, squares = batch_statistics(ctx, x, eps)
        items = numel(x.shape) // x.shape[1]
        if running[0] is not None and running[1] is not None:
            new_mean = ctx.map(
                lambda r, m: plus(times(m, momentum), times(r, 1 - momentum)), [running[0], flat_channel(centre)], running[0].dtype
            )
            unbiased = 1.0 / max(items - 1, 1)
            new_var = ctx.map(
                lambda r, s: plus(times(s, momentum * unbiased), times(r, 1 - momentum)),
                [running[1], flat_channel(squares)],
                running[1].dtype,
            )
        saved = (flat_channel(centre), flat_channel(inverse))
    else:
        if running[0] is None or running[1] is None:
            raise Decline
        centre = as_channel(running[0], x.ndim) or x
        inverse = as_channel(ctx.map(lambda v: rsqrt(plus(v, eps)), [running[1]], wide), x.ndim) or x
        empty = ctx.buffer((0,), metas[1].dtype, (1,))
        saved = (empty, empty)
    ctx.meta = metas[0]
    weights = as_channel(weight, x.ndim), as_channel(bias, x.ndim)
    out = (apply if x.dtype == wide else apply_line)(ctx, x, centre, inverse, *weights, x.dtype)
    return out, saved[0], saved[1], new_mean, new_var


@lowers("_native_batch_norm_legit_functional", "decomposed")
def _batch_norm_functional(
    ctx: Context, x: Tensor, weight: Any, bias: Any, mean_in: Tensor, var_in: Tensor, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    return _batch_norm(ctx, x, weight, bias, (mean_in, var_in), training, momentum, eps)


@lowers("_native_batch_norm_legit_no_training", "decomposed")
def _batch_norm_inference(
    ctx: Context, x: Tensor, weight: Any, bias: Any, mean_in: Tensor, var_in: Tensor, momentum: float, eps: float
) -> tuple[Any, ...]:
    return _batch_norm(ctx, x, weight, bias, (mean_in, var_in), False, momentum, eps)[:3]


@lowers("_native_batch_norm_legit.no_stats", "decomposed")
def _batch_norm_no_stats(ctx: Context, x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> tuple[Any, ...]:
    return _batch_norm(ctx, x, weight, bias, (None, None), training, momentum, eps)[:3]


@lowers("native_batch_norm", "decomposed")
def _native_batch_norm(
    ctx: Context, x: Tensor, weight: Any, bias: Any, mean_in: Any, var_in: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    """In training this op updates its statistics in place, so only its inference form is lowered."""
    if training and mean_in is not None:
        raise Decline
    return _batch_norm(ctx, x, weight, bias, (mean_in, var_in), training, momentum, eps)[:3]


@lowers("native_batch_norm_backward", "decomposed")
def _batch_norm_backward(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean_in: Tensor | None,
    var_in: Tensor | None,
    saved_mean: Tensor | None,
    saved_inverse: Tensor | None,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    if no_elements(x.shape) or x.ndim < 2:
        raise Decline
    metas, ctx.meta = ctx.meta, None
    wide, dims, items = accumulate_type(x.dtype), [k for k in range(x.ndim) if k != 1], numel(x.shape) // x.shape[1]
    if training:
        if saved_mean is None or saved_inverse is None:
            raise Decline
        centre, inverse = as_channel(saved_mean, x.ndim), as_channel(saved_inverse, x.ndim)
    else:
        if mean_in is None or var_in is None:
            raise Decline
        centre = as_channel(mean_in, x.ndim)
        inverse = as_channel(ctx.map(lambda v: rsqrt(plus(v, eps)), [var_in], wide), x.ndim)
    total = ctx.reduce("sum", grad, dims, True, wide)
    product = ctx.map(lambda g, v, m: times(g, minus(v, m)), [grad, x, centre], wide)
    dot = ctx.reduce("sum", product, dims, True, wide)
    scale = inverse if weight is None else ctx.map(times, [inverse, as_channel(weight, x.ndim)], wide)

    def fn(g: Expr, v: Expr, m: Expr, s: Expr, d: Expr, r: Expr, w: Expr) -> Expr:
        shift = times(times(times(minus(v, m), call("mul", r, r)), d), 1.0 / items)
        return times(minus(minus(g, shift), times(s, 1.0 / items)), w)

    out: list[Tensor | None] = [None, None, None]
    if mask[0]:
        ctx.meta = metas[0]
        if training:
            out[0] = ctx.map(fn, [grad, x, centre, total, dot, inverse, scale], x.dtype, wide)
        else:
            out[0] = ctx.map(times, [grad, scale], x.dtype, wide)
        ctx.meta = None
    if mask[1]:
        dtype = weight.dtype if weight is not None else wide
        out[1] = ctx.map(times, [flat_channel(dot), flat_channel(inverse) if inverse else dot], dtype, wide)
    if mask[2]:
        out[2] = flat_channel(total)
    return tuple(out)


@lowers("_fused_rms_norm", "decomposed")
def _rms_norm(ctx: Context, x: Tensor, shape: Sequence[int], weight: Tensor | None, eps: float | None) -> tuple[Tensor, Tensor]:
    if no_elements(x.shape):
        raise Decline
    metas, ctx.meta = ctx.meta, None
    wide, dims = accumulate_type(x.dtype), list(range(x.ndim - len(shape), x.ndim))
    small = torch.finfo(wide).eps if eps is None else eps
    squares = ctx.reduce("sum", x, dims, True, wide, pre=lambda v: times(v, v))
    inverse = inverse_deviation(ctx, squares, numel(shape), small)
    ctx.meta = metas[0]
    operands = [x, inverse] + ([weight] if weight is not None else [])
    out = ctx.map(lambda v, r, *w: times(times(v, r), w[0]) if w else times(v, r), operands, x.dtype, wide)
    ctx.meta = metas[1]
    return out, inverse if metas[1].dtype == wide else ctx.map(lambda v: v, [inverse], metas[1].dtype)


@lowers("_fused_rms_norm_backward", "decomposed")
def _rms_norm_backward(
    ctx: Context, grad: Tensor, x: Tensor, shape: Sequence[int], inverse: Tensor, weight: Tensor | None, mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    if no_elements(x.shape):
        raise Decline
    metas, ctx.meta = ctx.meta, None
    first = x.ndim - len(shape)
    wide, inner, items = accumulate_type(x.dtype), list(range(first, x.ndim)), numel(shape)
    normal = ctx.map(times, [x, inverse], wide)
    scaled = grad if weight is None else ctx.map(times, [grad, weight], wide)
    out: list[Tensor | None] = [None, None]
    if mask[0]:
        dot = ctx.reduce("sum", ctx.map(times, [scaled, normal], wide), inner, True, wide)
        ctx.meta = metas[0]
        out[0] = ctx.map(
            lambda g, h, d, r: times(minus(g, times(times(h, d), 1.0 / items)), r), [scaled, normal, dot, inverse], x.dtype, wide
        )
        ctx.meta = None
    if mask[1] and weight is not None:
        term = ctx.map(times, [grad, normal], wide)
        out[1] = ctx.reduce("sum", term, list(range(first)), False, weight.dtype, wide) if first else term
    return tuple(out)


@lowers("_weight_norm_interface", "decomposed")
def _weight_norm(ctx: Context, v: Tensor, g: Tensor, d: int = 0) -> tuple[Tensor, Tensor]:
    metas, ctx.meta = ctx.meta, None
    dims = [k for k in range(v.ndim) if k != d % v.ndim]
    wide = accumulate_type(v.dtype)
    norm = ctx.reduce("sum", v, dims, True, wide, pre=lambda x: times(x, x), post=lambda s: call("sqrt", s))
    ctx.meta = metas[0]
    return ctx.map(lambda x, s, n: times(x, over(s, n)), [v, g, norm], v.dtype, wide), norm
