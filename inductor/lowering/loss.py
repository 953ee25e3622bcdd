"""Losses, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch

from inductor.ir.affine import Index
from inductor.ir.dims import no_elements, numel
from inductor.ir.expr import Expr, call, cast, const, index_value, masked
from inductor.lowering.context import Context, Decline, as_stored
from inductor.lowering.formulas import log_sigmoid, minus, number, over, plus, square, times
from inductor.lowering.indexing import Indirect, affine, nonempty
from inductor.lowering.reduction import accumulate_type
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor

NONE, MEAN, SUM = 0, 1, 2
Fn = Callable[..., Expr]


def reduced(ctx: Context, fn: Fn, operands: list[Tensor], reduction: int) -> Tensor:
    """Element-wise loss, then none, mean or sum."""
    dtype = ctx.meta.dtype
    if reduction == NONE:
        return ctx.map(fn, operands, dtype)
    meta, ctx.meta = ctx.meta, None
    wide = accumulate_type(dtype)
    each = ctx.map(lambda *values: as_stored(fn(*values), dtype), operands, wide)
    ctx.meta = meta
    scale = 1.0 / max(numel(each.shape), 1)
    if each.ndim == 0:
        return ctx.map(lambda v: v, [each], dtype)
    if no_elements(each.shape):
        raise Decline
    return ctx.reduce(
        "sum", each, list(range(each.ndim)), False, dtype, wide, post=(lambda v: times(v, scale)) if reduction == MEAN else None
    )


def scaled_gradient(ctx: Context, fn: Fn, grad: Tensor, operands: list[Tensor], reduction: int) -> Tensor:
    """`grad * fn(operands)`, divided by the number of elements for a mean."""
    items = numel(operands[0].shape)
    scale = 1.0 / items if reduction == MEAN and items else 1.0
    return ctx.map(
        lambda g, *rest: times(times(g, fn(*rest)), scale) if scale != 1 else times(g, fn(*rest)), [grad, *operands], ctx.meta.dtype
    )


@lowers("mse_loss")
def _mse(ctx: Context, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    dtype: torch.dtype = ctx.meta.dtype
    return reduced(ctx, lambda a, b: square(as_stored(minus(a, b), dtype)), [x, y], reduction)


@lowers("mse_loss_backward")
def _mse_backward(ctx: Context, grad: Tensor, x: Tensor, y: Tensor, reduction: int) -> Tensor:
    if x.dtype != y.dtype:  # torch 2.11 refuses that
        raise Decline
    return scaled_gradient(ctx, lambda a, b: times(minus(a, b), 2.0), grad, [x, y], reduction)


@lowers("l1_loss")
def _l1(ctx: Context, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    return reduced(ctx, lambda a, b: call("abs", minus(a, b)), [x, y], reduction)


def _smooth(beta: float, dtype: torch.dtype) -> Fn:
    def fn(a: Expr, b: Expr) -> Expr:
        # ATen's kernel for float16 (not the one for bfloat16) rounds the distance.
        d = call("abs", as_stored(minus(a, b), dtype) if dtype is torch.float16 else minus(a, b))
        return call("where", call("lt", d, number(d, beta)), times(square(d), 0.5 / beta), minus(d, 0.5 * beta))

    return fn if beta else (lambda a, b: call("abs", minus(a, b)))


@lowers("smooth_l1_loss")
def _smooth_l1(ctx: Context, x: Tensor, y: Tensor, reduction: int = MEAN, beta: float = 1.0) -> Tensor:
    return reduced(ctx, _smooth(beta, ctx.meta.dtype), [x, y], reduction)


@lowers("huber_loss")
def _huber(ctx: Context, x: Tensor, y: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    def fn(a: Expr, b: Expr) -> Expr:
        d = call("abs", minus(a, b))
        return call("where", call("le", d, number(d, delta)), times(square(d), 0.5), times(minus(d, 0.5 * delta), delta))

    return reduced(ctx, fn, [x, y], reduction)


def _bounded_gradient(ctx: Context, operands: list[Tensor], reduction: int, at: float, bound: float, slope: float) -> Tensor:
    """The gradient of a loss that is a parabola between `-at` and `at` and goes on straight: `d / slope` between, `bound` outside.

    A distance that is NaN, as that of two equal infinities is, is outside of no bound. The sign of an infinite one is still a number.
    """
    items = numel(operands[1].shape)
    scale = 1.0 / items if reduction == MEAN and items else 1.0

    def fn(grad: Expr, a: Expr, b: Expr) -> Expr:
        d = minus(a, b)
        sign = call("where", call("gt", d, number(d, 0)), number(d, bound), number(d, -bound))
        inside = d if slope == 1 else over(d, number(d, slope))
        value = call("where", call("ge", call("abs", d), number(d, at)), sign, inside)
        return times(value if scale == 1 else times(value, scale), grad)

    return ctx.map(fn, operands, ctx.meta.dtype)


@lowers("smooth_l1_loss_backward")
def _smooth_l1_backward(ctx: Context, grad: Tensor, x: Tensor, y: Tensor, reduction: int, beta: float) -> Tensor:
    return _bounded_gradient(ctx, [grad, x, y], reduction, beta, 1.0, beta)


@lowers("huber_loss_backward")
def _huber_backward(ctx: Context, grad: Tensor, x: Tensor, y: Tensor, reduction: int, delta: float) -> Tensor:
    if x.dtype != y.dtype:
        raise Decline
    return _bounded_gradient(ctx, [grad, x, y], reduction, delta, delta, 1.0)


@lowers("soft_margin_loss")
def _soft_margin(ctx: Context, x: Tensor, y: Tensor, reduction: int = MEAN) -> Tensor:
    if x.dtype != y.dtype:
        raise Decline
    return reduced(ctx, lambda a, b: call("log1p", call("exp", call("neg", times(a, b)))), [x, y], reduction)


def between_0_and_1(value: Expr) -> Expr:
    """The value; outside of [0, 1] the call raises."""
    inside = call("and", call("ge", value, number(value, 0)), call("le", value, number(value, 1)))
    outside = call("where", inside, const(0, "i64"), const(1, "i64"))
    return plus(value, cast(Expr("check", "i64", (outside,), 1), value.type))


@cache
def _refuses_targets() -> bool:
    """Whether this torch looks at the targets, too."""
    try:
        torch.nn.functional.binary_cross_entropy(torch.zeros(1), torch.full((1,), 2.0))
    except RuntimeError:
        return True
    return False


@lowers("binary_cross_entropy")
def _bce(ctx: Context, x: Tensor, y: Tensor, weight: Tensor | None = None, reduction: int = MEAN) -> Tensor:
    if weight is not None and weight.dtype != x.dtype:
        raise Decline

    def fn(a: Expr, t: Expr, *w: Expr) -> Expr:
        a, t = between_0_and_1(a), between_0_and_1(t) if _refuses_targets() else t
        floor = number(a, -100.0)
        on, off = call("max", call("log", a), floor), call("max", call("log1p", call("neg", a)), floor)
        value = minus(times(minus(t, 1.0), off), times(t, on))
        return times(value, w[0]) if w else value

    return reduced(ctx, fn, [x, y] + ([weight] if weight is not None else []), reduction)


@lowers("binary_cross_entropy_with_logits")
def _bce_logits(
    ctx: Context, x: Tensor, y: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = MEAN
) -> Tensor:
    if pos_weight is not None or (ctx.meta.dtype == torch.float64 and x.dtype != torch.float64):
        raise Decline

    dtype = ctx.meta.dtype

    def fn(a: Expr, t: Expr, *w: Expr) -> Expr:
        """ATen makes it of smaller operators: `log_sigmoid` rounds to the type of the logits, the others to that of the result."""
        off = as_stored(times(as_stored(minus(number(a, 1), t), dtype), a), dtype)
        value = minus(off, as_stored(log_sigmoid(a), x.dtype))
        return times(as_stored(value, dtype), w[0]) if w else value

    return reduced(ctx, fn, [x, y] + ([weight] if weight is not None else []), reduction)


def _picked(ctx: Context, source: Tensor, target: Tensor, ignore: int, value: Fn) -> Tensor:
    """One value per target: `value(indirect, class index)`, or 0 where the target is to be ignored."""
    kind = accumulate_type(source.dtype)

    def body(where: tuple[Index, ...]) -> Expr:
        label = cast(target.load(where), "i64")
        keep = call("ne", label, const(ignore, "i64"))
        safe = call("where", keep, label, const(0, "i64"))
        result = value(where, safe)
        return masked(keep, result, const(0, result.type))

    return ctx.make(target.shape, kind, body)


@lowers("nll_loss_forward", "decomposed")
def _nll_loss(ctx: Context, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int) -> tuple[Tensor, Tensor]:
    if x.ndim != 2 or target.ndim != 1:
        raise Decline
    nonempty(affine(x), target)
    classes, metas, wide = x.shape[1], ctx.meta, accumulate_type(x.dtype)
    ctx.meta = None

    def weight_of(where: tuple[Index, ...], label: Expr) -> Expr:
        if weight is None:
            return const(1.0, "f64" if wide == torch.float64 else "f32")
        indirect = Indirect()
        return indirect.load(affine(weight), [indirect.axis(label, classes)])

    def value(where: tuple[Index, ...], label: Expr) -> Expr:
        indirect = Indirect()
        loss = call("neg", indirect.load(x, [where[0], indirect.axis(label, classes)]))
        return loss if weight is None else times(loss, weight_of(where, label))

    losses = _picked(ctx, x, target, ignore, value)
    weights = _picked(ctx, x, target, ignore, weight_of)
    total_weight = ctx.reduce("sum", weights, [0], False, wide)
    if reduction == NONE:
        zero = ctx.make((), metas[1].dtype, lambda where: const(0.0, "f64" if wide == torch.float64 else "f32"))
        return ctx.map(lambda v: v, [losses], x.dtype), zero
    total = ctx.reduce("sum", losses, [0], False, wide)
    result = ctx.map(over, [total, total_weight], x.dtype) if reduction == MEAN else ctx.map(lambda v: v, [total], x.dtype)
    return result, ctx.map(lambda v: v, [total_weight], metas[1].dtype)


@lowers("nll_loss_backward")
def _nll_loss_backward(
    ctx: Context, grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int, total_weight: Tensor
) -> Tensor:

    if x.ndim != 2 or target.ndim != 1:
        raise Decline
    nonempty(x, target)
    wide = "f64" if x.dtype == torch.float64 else "f32"

    def body(where: tuple[Index, ...]) -> Expr:
        row, column = where
        label = cast(target.load([row]), "i64")
        hit = call("eq", label, index_value(column))
        kept = call("and", hit, call("ne", label, const(ignore, "i64")))
        value = call("neg", cast(grad.load([row] if reduction == NONE else []), wide))
        if reduction == MEAN:
            value = over(value, cast(total_weight.load([]), wide))
        if weight is not None:
            value = times(value, cast(weight.load([column]), wide))
        return call("where", kept, value, const(0.0, wide))

    return ctx.make(x.shape, x.dtype, body)


@lowers("log_sigmoid_forward", "decomposed")
def _log_sigmoid(ctx: Context, x: Tensor) -> tuple[Tensor, Tensor]:
    metas = ctx.meta
    ctx.meta = metas[0]
    out = ctx.map(log_sigmoid, [x], x.dtype)
    if tuple(metas[1].shape) != (0,):
        raise Decline
    return out, ctx.buffer((0,), x.dtype, (1,))


@lowers("log_sigmoid_backward")
def _log_sigmoid_backward(ctx: Context, grad: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        z = call("exp", call("neg", call("abs", v)))
        inner = call("where", call("lt", v, number(v, 0)), number(v, 1), number(v, 0))
        sign = call("where", call("lt", v, number(v, 0)), number(v, 1), number(v, -1))
        return times(g, minus(inner, times(sign, over(z, plus(z, 1.0)))))

    return ctx.map(fn, [grad, x], ctx.meta.dtype)
