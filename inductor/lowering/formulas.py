"""Formulas of element-wise operators over the expressions of a loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from inductor.ir import types
from inductor.ir.expr import Expr, call, cast, const, const_value
from inductor.lowering.context import Decline, as_stored

Fn = Callable[..., Expr]
Step = Callable[[Expr], Expr]


def number(like: Expr, value: float) -> Expr:
    return const(value, like.type)


def plus(a: Expr, b: Expr | float) -> Expr:
    return call("add", a, b if isinstance(b, Expr) else number(a, b))


def minus(a: Expr, b: Expr | float) -> Expr:
    return call("sub", a, b if isinstance(b, Expr) else number(a, b))


def times(a: Expr, b: Expr | float) -> Expr:
    return call("mul", a, b if isinstance(b, Expr) else number(a, b))


def over(a: Expr | float, b: Expr) -> Expr:
    return call("div", a if isinstance(a, Expr) else number(b, a), b)


def op(name: str) -> Fn:
    return partial(call, name)


def sigmoid(x: Expr) -> Expr:
    return over(1.0, plus(call("exp", call("neg", x)), 1.0))


def rsqrt(x: Expr) -> Expr:
    return over(1.0, call("sqrt", x))


def at_least(x: Expr, low: Expr) -> Expr:
    """`max` gives the second of equal operands: relu(-0.0) stays -0.0, as in ATen."""
    return call("max", low, x)


def at_most(x: Expr, high: Expr) -> Expr:
    return call("min", high, x)


def square(x: Expr) -> Expr:
    return times(x, x)


def relu(x: Expr) -> Expr:
    return at_least(x, number(x, 0))


def silu(x: Expr) -> Expr:
    return over(x, plus(call("exp", call("neg", x)), 1.0))


def softplus(x: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    scaled = times(x, beta)
    return call("where", call("gt", scaled, number(x, threshold)), x, over(call("log1p", call("exp", scaled)), number(x, beta)))


def log_sigmoid(x: Expr) -> Expr:
    least = at_most(x, number(x, 0))
    return minus(least, call("log1p", call("exp", call("neg", call("abs", x)))))


def mish(x: Expr) -> Expr:
    return times(x, call("tanh", call("log1p", call("exp", x))))


def gelu_erf(x: Expr) -> Expr:
    return times(times(x, 0.5), plus(call("erf", times(x, math.sqrt(0.5))), 1.0))


def gelu_tanh(x: Expr) -> Expr:
    inner = times(times(plus(times(times(square(x), x), 0.044715), x), math.sqrt(2.0 / math.pi)), 1.0)
    return times(times(x, 0.5), plus(call("tanh", inner), 1.0))


def hardtanh(x: Expr, low: float, high: float) -> Expr:
    return at_most(at_least(x, number(x, low)), number(x, high))


def hardsigmoid(x: Expr) -> Expr:
    return over(hardtanh(plus(x, 3.0), 0.0, 6.0), number(x, 6.0))


def hardswish(x: Expr) -> Expr:
    return over(times(x, hardtanh(plus(x, 3.0), 0.0, 6.0)), number(x, 6.0))


def sign(x: Expr) -> Expr:
    if x.type == "bool":
        return x
    zero = number(x, 0)
    return call("sub", cast(call("lt", zero, x), x.type), cast(call("lt", x, zero), x.type))


def sinc(x: Expr) -> Expr:
    scaled = times(x, math.pi)
    return call("where", call("eq", x, number(x, 0)), number(x, 1), over(call("sin", scaled), scaled))


def logical(x: Expr) -> Expr:
    return cast(x, "bool")


def log_add_exp(a: Expr, b: Expr) -> Expr:
    high, low = call("max", a, b), call("min", a, b)
    value = plus(high, call("log1p", call("exp", minus(low, high))))
    same_infinity = call("and", call("eq", a, b), call("isinf", a))
    return call("where", same_infinity, a, value)


def log_add_exp2(a: Expr, b: Expr) -> Expr:
    high, low = call("max", a, b), call("min", a, b)
    value = plus(high, times(call("log1p", call("exp2", minus(low, high))), 1 / math.log(2)))
    same_infinity = call("and", call("eq", a, b), call("isinf", a))
    return call("where", same_infinity, a, value)


def xlogy(stored: Step, a: Expr, b: Expr, log: str = "log") -> Expr:
    zero = number(a, 0)
    value = call("where", call("eq", a, zero), zero, times(a, stored(call(log, b))))
    return call("where", call("isnan", b), b, value)


def power(a: Expr, b: Expr, dtype: torch.dtype, has_roots: bool) -> Expr:
    """pow with the small constant exponents as arithmetic, as eager does: of bfloat16 it rounds the squares. `has_roots`: it takes roots
    for the exponents 0.5 and -0.5, which differ from powers at -0 and -inf."""
    exponent, squared = const_value(b), square(a)
    if dtype is torch.bfloat16:
        squared = as_stored(squared, dtype)
    if exponent == 2:
        return square(a)
    if exponent == 1:
        return a
    if exponent == 0:
        return number(a, 1)
    if exponent == 3:
        return times(squared, a)
    if types.is_float(a.type):
        if exponent == 0.5 and has_roots:
            return call("sqrt", a)
        if exponent == -0.5 and has_roots:
            return rsqrt(a)
        if exponent == -1:
            return over(1.0, a)
        if exponent == -2:
            return over(1.0, squared)
        return call("pow", a, as_stored(b, dtype))
    raise Decline


def entropy(stored: Step, x: Expr) -> Expr:
    zero = number(x, 0)
    inside = call("where", call("eq", x, zero), zero, call("neg", times(x, stored(call("log", x)))))
    value = call("where", call("lt", x, zero), number(x, -math.inf), inside)
    return call("where", call("isnan", x), x, value)


def frac(x: Expr) -> Expr:
    return minus(x, call("trunc", x))


def copy_sign(a: Expr, b: Expr) -> Expr:
    return call("copysign", a, b)


def heaviside(x: Expr, value: Expr) -> Expr:
    step = cast(call("gt", x, number(x, 0)), x.type)
    return call("where", call("eq", x, number(x, 0)), value, call("where", call("isnan", x), number(x, 0), step))


def fmax(a: Expr, b: Expr) -> Expr:
    return call("where", call("isnan", a), b, call("where", call("isnan", b), a, call("max", a, b)))


def fmin(a: Expr, b: Expr) -> Expr:
    return call("where", call("isnan", a), b, call("where", call("isnan", b), a, call("min", a, b)))
