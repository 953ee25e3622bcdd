"""Derivatives of element-wise ops: one row each."""

from __future__ import annotations

import math

from inductor.ir.expr import Expr, call
from inductor.lowering.context import Context
from inductor.lowering.formulas import number, over, plus, sigmoid, square, times
from inductor.lowering.pointwise import binary, rounded
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor

SIXTH = 11184811 / 2**26  # 1/6 as ATen's kernels of hardsigmoid's derivative have it for every dtype: rounded to float32


@lowers("sigmoid_backward")
def _sigmoid_backward(ctx: Context, grad: Tensor, y: Tensor) -> Tensor:
    return binary(lambda g, v: times(g, times(call("sub", number(v, 1), v), v)), ctx, grad, y)


@lowers("tanh_backward")
def _tanh_backward(ctx: Context, grad: Tensor, y: Tensor) -> Tensor:
    return binary(lambda g, v: times(g, call("sub", number(v, 1), square(v))), ctx, grad, y)


@lowers("threshold_backward")
def _threshold_backward(ctx: Context, grad: Tensor, x: Tensor, threshold: float) -> Tensor:
    return binary(lambda g, v: call("where", call("le", v, number(v, threshold)), number(g, 0), g), ctx, grad, x)


@lowers("gelu_backward")
def _gelu_backward(ctx: Context, grad: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    def exact(g: Expr, v: Expr) -> Expr:
        cdf = times(plus(call("erf", times(v, math.sqrt(0.5))), 1.0), 0.5)
        pdf = times(call("exp", times(square(v), -0.5)), 1 / math.sqrt(2 * math.pi))
        return times(g, plus(cdf, times(v, pdf)))

    def tanh(g: Expr, v: Expr) -> Expr:
        beta, kappa = math.sqrt(2 / math.pi), 0.044715
        cubed = times(square(v), v)
        t = call("tanh", times(plus(v, times(cubed, kappa)), beta))
        left = times(plus(t, 1.0), 0.5)
        inner = times(plus(times(square(v), 3 * kappa), 1.0), beta)
        right = times(times(times(v, 0.5), call("sub", number(t, 1), square(t))), inner)
        return times(g, plus(left, right))

    return binary(tanh if approximate == "tanh" else exact, ctx, grad, x)


@lowers("silu_backward")
def _silu_backward(ctx: Context, grad: Tensor, x: Tensor) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        s = sigmoid(v)
        return times(times(g, s), plus(times(v, call("sub", number(s, 1), s)), 1.0))

    return binary(fn, ctx, grad, x)


@lowers("leaky_relu_backward")
def _leaky_relu_backward(ctx: Context, grad: Tensor, x: Tensor, slope: float, is_result: bool) -> Tensor:
    return binary(lambda g, v: call("where", call("gt", v, number(v, 0)), g, times(g, slope)), ctx, grad, x)


@lowers("elu_backward")
def _elu_backward(ctx: Context, grad: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, x: Tensor) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        if is_result:
            negative = times(times(g, input_scale), plus(v, alpha * scale))
        else:
            negative = times(times(g, input_scale * alpha * scale), call("exp", times(v, input_scale)))
        return call("where", call("gt", v, number(v, 0)), times(g, scale), negative)  # NaN stays NaN, as in ATen's loop of vectors

    return binary(fn, ctx, grad, x)


@lowers("hardtanh_backward")
def _hardtanh_backward(ctx: Context, grad: Tensor, x: Tensor, low: float, high: float) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        outside = call("or", call("le", v, number(v, low)), call("ge", v, number(v, high)))
        return call("where", outside, number(g, 0), g)

    return binary(fn, ctx, grad, x)


@lowers("logit_backward")
def _logit_backward(ctx: Context, grad: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    """ATen compares with an `eps`, and its distance from 1, in the type of `x`."""
    has_bounds = eps is not None and eps >= 0
    low = rounded(eps, x.dtype) if eps is not None and has_bounds else 0.0
    high = rounded(1 - low, x.dtype)

    def fn(g: Expr, v: Expr) -> Expr:
        inside = call("and", call("ge", v, number(v, low)), call("le", v, number(v, high)))
        return call("where", inside, over(g, times(v, call("sub", number(v, 1), v))), number(g, 0 if has_bounds else math.nan))

    return binary(fn, ctx, grad, x)


@lowers("hardsigmoid_backward")
def _hardsigmoid_backward(ctx: Context, grad: Tensor, x: Tensor) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        inside = call("and", call("gt", v, number(v, -3)), call("lt", v, number(v, 3)))
        return call("where", inside, times(g, SIXTH), number(g, 0))

    return binary(fn, ctx, grad, x)


@lowers("hardswish_backward")
def _hardswish_backward(ctx: Context, grad: Tensor, x: Tensor) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        middle = times(g, plus(over(v, number(v, 3)), 0.5))
        upper = call("where", call("lt", v, number(v, 3)), middle, g)
        return call("where", call("le", v, number(v, -3)), number(g, 0), upper)

    return binary(fn, ctx, grad, x)


@lowers("softplus_backward")
def _softplus_backward(ctx: Context, grad: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    def fn(g: Expr, v: Expr) -> Expr:
        z = call("exp", times(v, beta))
        return call("where", call("gt", times(v, beta), number(v, threshold)), g, over(times(g, z), plus(z, 1.0)))

    return binary(fn, ctx, grad, x)
