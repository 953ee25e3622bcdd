"""Element-wise ops: one row each, grouped by how their operands and result are typed."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from dynamo.torch_facts import CLAMP_IGNORES_A_SINGLE_NAN, CLAMP_TAKES_FAR_BOUNDS, SOFTSHRINK_ROUNDS_ITS_BOUND
from inductor.ir import types
from inductor.ir.expr import Expr, call, cast, const
from inductor.lowering.context import Context, Decline, Operand, as_stored, broadcast_shape, promote
from inductor.lowering.formulas import (
    Fn,
    Step,
    at_least,
    at_most,
    copy_sign,
    entropy,
    fmax,
    fmin,
    frac,
    gelu_erf,
    gelu_tanh,
    hardsigmoid,
    hardswish,
    hardtanh,
    heaviside,
    log_add_exp,
    log_add_exp2,
    log_sigmoid,
    logical,
    minus,
    mish,
    number,
    op,
    over,
    plus,
    power,
    relu,
    rsqrt,
    sigmoid,
    sign,
    silu,
    sinc,
    softplus,
    square,
    times,
    xlogy,
)
from inductor.lowering.registry import add, lowers
from inductor.lowering.tensor import Tensor


def unary(fn: Fn, ctx: Context, x: Tensor) -> Tensor:
    """The result has the dtype of the fake value; integers are promoted to it first."""
    return ctx.map(fn, [x], ctx.meta.dtype)


def stepwise(fn: Callable[..., Expr], ctx: Context, *operands: Operand) -> Tensor:
    """`fn(stored, values...)` where ATen rounds 16-bit values inside one operator: `stored` is such a rounding."""
    dtype = ctx.meta.dtype
    if not dtype.is_floating_point:
        raise Decline
    stored = partial(as_stored, dtype=dtype)
    return ctx.map(lambda *values: fn(stored, *map(stored, values)), operands, dtype)


def rounded(value: float, dtype: torch.dtype) -> float:
    """A number that ATen's kernel has in the type of its operand."""
    return float(torch.tensor(value, dtype=dtype, device="cpu")) if dtype.is_floating_point else value


def predicate(fn: Fn, ctx: Context, x: Tensor) -> Tensor:
    """Computed in the operand's own type, bool out."""
    return ctx.map(fn, [x], torch.bool, x.dtype)


FLOAT_UNARY: dict[str, Fn] = {
    **{
        name: op(name)
        for name in [
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "erf",
            "erfc",
            "lgamma",
        ]
    },
    "rsqrt": rsqrt,
    "sigmoid": sigmoid,
    "reciprocal": lambda x: over(1.0, x),
    "silu": silu,
    "mish": mish,
    "log_sigmoid": log_sigmoid,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    "deg2rad": lambda x: times(x, math.pi / 180),
    "rad2deg": lambda x: times(x, 180 / math.pi),
    "sinc": sinc,
}

KEEPING_UNARY: dict[str, Fn] = {
    "neg": op("neg"),
    "abs": op("abs"),
    "relu": relu,
    "relu6": lambda x: hardtanh(x, 0, 6),
    "square": square,
    "sign": sign,
    "sgn": sign,
    "positive": lambda x: x,
}

ROUNDING: dict[str, Fn] = {
    "floor": op("floor"),
    "ceil": op("ceil"),
    "trunc": op("trunc"),
    "fix": op("trunc"),
    "round": op("round"),
    "frac": frac,
}

PREDICATES: dict[str, Fn] = {
    "logical_not": lambda x: call("not", logical(x)),
    "isnan": op("isnan"),
    "isinf": op("isinf"),
    "isposinf": lambda x: call("eq", x, number(x, math.inf)),
    "isneginf": lambda x: call("eq", x, number(x, -math.inf)),
    "isfinite": lambda x: call("not", call("or", call("isnan", x), call("isinf", x))),
    "signbit": op("signbit"),
}

_ALWAYS_FALSE = {"isnan", "isinf", "isposinf", "isneginf"}


def _rounding(fn: Fn, ctx: Context, x: Tensor) -> Tensor:
    return ctx.map(fn if types.is_float(x.type) else (lambda v: v), [x], x.dtype)


def _predicate(name: str, ctx: Context, x: Tensor) -> Tensor:
    if types.is_float(x.type) or name == "logical_not":
        return predicate(PREDICATES[name], ctx, x)
    if name == "signbit":
        return ctx.map(lambda v: call("lt", v, number(v, 0)), [x], torch.bool, x.dtype)
    return ctx.map(lambda v: const(name not in _ALWAYS_FALSE, "bool"), [x], torch.bool, x.dtype)


for _name, _fn in FLOAT_UNARY.items():
    add(_name, partial(unary, _fn), "native", "pointwise")
for _name, _fn in KEEPING_UNARY.items():
    add(_name, partial(unary, _fn), "native", "pointwise")
for _name, _fn in ROUNDING.items():
    add(_name, partial(_rounding, _fn), "native", "pointwise")
for _name in PREDICATES:
    add(_name, partial(_predicate, _name), "native", "pointwise")


@lowers("log10")
def _log10(ctx: Context, x: Tensor) -> Tensor:
    """Of powers of ten eager's are exact, as programs that count digits need; vector libraries for float32 are off by a unit there."""
    if ctx.program.device != "cpu" or ctx.meta.dtype is not torch.float32:
        return unary(op("log10"), ctx, x)
    return ctx.map(lambda v: cast(call("log10", cast(v, "f64")), "f32"), [x], ctx.meta.dtype)


def binary(fn: Fn, ctx: Context, a: Operand, b: Operand, exact_number: bool = False) -> Tensor:
    """Operands are converted to the result's dtype first; with `exact_number` a number `b` only to the type it is computed in.

    ATen's kernels take the original number where it is their second operand, and round it to the result's dtype where it is the first.
    """
    dtype = ctx.meta.dtype
    kept = exact_number and not (isinstance(b, Tensor) and b.ndim)
    return ctx.map(lambda x, y: fn(as_stored(x, dtype), y if kept else as_stored(y, dtype)), [a, b], dtype)


def converted(fn: Fn, ctx: Context, *operands: Operand) -> Tensor:
    """Operands are converted to the result's dtype first."""
    dtype = ctx.meta.dtype
    return ctx.map(lambda *values: fn(*(as_stored(v, dtype) for v in values)), operands, dtype)


def compare(fn: Fn, ctx: Context, a: Operand, b: Operand) -> Tensor:
    """Operands are promoted among themselves; bool out."""
    dtype = promote(a, b)
    if not types.known(dtype):  # real numbers beside a complex one
        raise Decline
    return ctx.map(lambda x, y: fn(as_stored(x, dtype), as_stored(y, dtype)), [a, b], torch.bool, dtype)


product = partial(binary, exact_number=True)


def float_only(fn: Fn, ctx: Context, a: Operand, b: Operand) -> Tensor:
    """Integer versions raise on zero divisors in eager, so they stay ATen calls."""
    if not ctx.meta.dtype.is_floating_point:
        raise Decline
    return binary(fn, ctx, a, b)


def _arith(name: str, ctx: Context, a: Operand, b: Operand, *, alpha: float = 1) -> Tensor:
    if ctx.meta.dtype == torch.bool:
        if name == "sub":
            raise Decline
        return binary(op("or" if name == "add" else "and"), ctx, a, b)
    if alpha == 1:
        return binary(op(name), ctx, a, b)
    return binary(lambda x, y: call(name, x, scaled(y, alpha, ctx.meta.dtype)), ctx, a, b)


def scaled(value: Expr, alpha: float, dtype: torch.dtype) -> Expr:
    """`alpha * value`, alpha in `dtype` as ATen's sums have it."""
    return times(value, as_stored(number(value, alpha), dtype)) if alpha != 1 else value


def _multiply(ctx: Context, a: Operand, b: Operand) -> Tensor:
    return product(op("and" if ctx.meta.dtype == torch.bool else "mul"), ctx, a, b)


add("add.Tensor add.Scalar", partial(_arith, "add"), "native", "pointwise")
add("sub.Tensor sub.Scalar", partial(_arith, "sub"), "native", "pointwise")
add("mul.Tensor mul.Scalar", _multiply, "native", "pointwise")
add("div.Tensor div.Scalar true_divide.Tensor", partial(product, op("div")), "native", "pointwise")


@lowers("rsub.Tensor rsub.Scalar")
def _rsub(ctx: Context, a: Operand, b: Operand, alpha: float = 1) -> Tensor:
    return binary(lambda x, y: call("sub", y, scaled(x, alpha, ctx.meta.dtype)), ctx, a, b)


FLOAT_BINARY: dict[str, tuple[str, Fn]] = {
    "fmod": ("fmod.Tensor fmod.Scalar", op("fmod")),
    "remainder": ("remainder.Tensor remainder.Scalar", op("remainder")),
    "atan2": ("atan2", op("atan2")),
    "hypot": ("hypot", op("hypot")),
    "copysign": ("copysign.Tensor copysign.Scalar", copy_sign),
    "logaddexp": ("logaddexp", log_add_exp),
    "logaddexp2": ("logaddexp2", log_add_exp2),
    "fmax": ("fmax", fmax),
    "fmin": ("fmin", fmin),
}
for _names, _fn in FLOAT_BINARY.values():
    add(_names, partial(float_only, _fn), "native", "pointwise")

STEPWISE: dict[str, Callable[..., Expr]] = {
    "special_entr": entropy,
    "xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self": xlogy,
    "special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar": partial(xlogy, log="log1p"),
}
for _names, _step in STEPWISE.items():
    add(_names, partial(stepwise, _step), "native", "pointwise")


@lowers("nextafter")
def next_after(ctx: Context, a: Operand, b: Operand) -> Tensor:
    """The neighbour of a half number is another number than that of the same number as f32."""
    if ctx.meta.dtype in (torch.bfloat16, torch.float16):
        raise Decline
    return float_only(op("nextafter"), ctx, a, b)


add("maximum", partial(binary, op("max")), "native", "pointwise")
add("minimum", partial(binary, op("min")), "native", "pointwise")
add("heaviside", partial(float_only, heaviside), "native", "pointwise")
for _name in ("and", "or", "xor"):
    add(f"bitwise_{_name}.Tensor bitwise_{_name}.Scalar", partial(binary, op(_name)), "native", "pointwise")
add("bitwise_not", partial(unary, op("not")), "native", "pointwise")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    add(f"{_name}.Tensor {_name}.Scalar", partial(compare, op(_name)), "native", "pointwise")


def _logical_binary(name: str, ctx: Context, a: Tensor, b: Tensor) -> Tensor:
    type_of = promote(a, b)
    return ctx.map(lambda x, y: call(name, logical(x), logical(y)), [a, b], torch.bool, type_of)


for _name in ("and", "or", "xor"):
    add(f"logical_{_name}", partial(_logical_binary, _name), "native", "pointwise")


@lowers("div.Tensor_mode div.Scalar_mode")
def _div_mode(ctx: Context, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        return product(op("div"), ctx, a, b)
    return rounded_quotient(rounding_mode, ctx, a, b)


@lowers("floor_divide.default floor_divide.Scalar")
def _floor_divide(ctx: Context, a: Operand, b: Operand) -> Tensor:
    return rounded_quotient("floor", ctx, a, b)


def rounded_quotient(mode: str, ctx: Context, a: Operand, b: Operand) -> Tensor:
    """By a number ATen divides 16-bit values in float32, by a tensor it rounds each step."""
    dtype = ctx.meta.dtype
    if not dtype.is_floating_point:
        raise Decline
    by_number = not (isinstance(b, Tensor) and b.ndim)
    if by_number or not types.is_half(types.of_torch(dtype)):
        whole: dict[str, Fn] = {"floor": op("floordiv"), "trunc": lambda x, y: call("trunc", over(x, y))}
        return ctx.map(lambda x, y: whole[mode](as_stored(x, dtype), y), [a, b], dtype)
    steps: dict[str, Fn] = {"floor": floor_quotient, "trunc": lambda stored, x, y: call("trunc", stored(over(x, y)))}
    return stepwise(steps[mode], ctx, a, b)


def floor_quotient(stored: Step, a: Expr, b: Expr) -> Expr:
    """Python's `a // b` as c10::div_floor_floating has it: (a - a fmod b) / b, one less where signs differ, to the nearest integer."""
    one, zero = number(a, 1), number(a, 0)
    left = call("fmod", a, b)
    quotient = stored(over(stored(minus(a, left)), b))
    below = call("and", call("ne", left, zero), call("xor", call("lt", b, zero), call("lt", left, zero)))
    quotient = call("where", below, stored(minus(quotient, one)), quotient)
    floor = call("floor", quotient)
    nearest = call("where", call("gt", minus(quotient, floor), number(a, 0.5)), plus(floor, one), floor)
    plain = stored(over(a, b))
    value = call("where", call("eq", quotient, zero), call("copysign", zero, plain), nearest)
    return call("where", call("eq", b, zero), plain, value)


@lowers("pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar")
def _pow(ctx: Context, a: Operand, b: Operand) -> Tensor:
    if ctx.meta.dtype == torch.bool:
        raise Decline
    if a == 2 and not isinstance(a, Tensor) and ctx.meta.dtype.is_floating_point:
        return ctx.map(op("exp2"), [b], ctx.meta.dtype)
    has_roots = not isinstance(b, Tensor) and (ctx.meta.dtype is not torch.float16 or ctx.program.device != "cpu")
    return binary(lambda x, y: power(x, y, ctx.meta.dtype, has_roots), ctx, a, b)


@lowers("where.self")
def _where(ctx: Context, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return select(ctx, condition, a, b)


def select(ctx: Context, condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """`condition ? a : b` with broadcasting; the result has the dtype of the fake value."""
    type_name = types.compute(types.of_torch(ctx.meta.dtype))
    fn: Fn = lambda c, x, y: call("where", logical(c), cast(x, type_name), cast(y, type_name))  # noqa: E731  # typed callback
    return map_each(ctx, fn, [condition, a, b], ctx.meta.dtype)


def map_each(ctx: Context, fn: Fn, operands: list[Operand], dtype: torch.dtype) -> Tensor:
    """Like `ctx.map`, with every tensor operand in its own compute type and numbers in the result's."""
    number_type = types.compute(types.of_torch(dtype))
    shape = broadcast_shape([o.shape for o in operands if isinstance(o, Tensor)])
    strides = ctx.meta_strides(shape) or ctx.strides_like(shape, operands)
    return ctx.make(
        shape,
        dtype,
        lambda where: fn(*(o.broadcast_load(where) if isinstance(o, Tensor) else const(o, number_type) for o in operands)),
        strides,
    )


@lowers("masked_fill.Scalar masked_fill.Tensor")
def _masked_fill(ctx: Context, x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """ATen refuses a number that the type of `x` cannot hold, which is known here by the types alone."""
    if isinstance(value, Tensor) and (torch.promote_types(value.dtype, x.dtype) is not x.dtype or _may_be_too_large(value.dtype, x.dtype)):
        raise Decline
    return select(ctx, mask, value, x)


def _may_be_too_large(given: torch.dtype, wanted: torch.dtype) -> bool:
    """Whether whole numbers of the one are beyond the floats of the other: those of float16 end at 65504."""
    return wanted is torch.float16 and given in (torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)


def held(bound: Operand, dtype: torch.dtype) -> Operand:
    """A bound beyond all integers of a type as the last of them: `CLAMP_TAKES_FAR_BOUNDS`."""
    if not CLAMP_TAKES_FAR_BOUNDS or isinstance(bound, Tensor | bool) or dtype.is_floating_point or dtype is torch.bool:
        return bound
    kind = torch.iinfo(dtype)
    return min(max(bound, kind.min), kind.max)


@lowers("clamp clamp.Tensor clip clip.Tensor")
def _clamp(ctx: Context, x: Tensor, low: Operand = None, high: Operand = None) -> Tensor:
    given = [bound for bound in (low, high) if bound is not None]
    if CLAMP_IGNORES_A_SINGLE_NAN and len(given) == 1 and isinstance(given[0], float) and math.isnan(given[0]):
        given, low, high = [], None, None
    operands = [x, *(held(bound, ctx.meta.dtype) for bound in given)]

    def fn(value: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        if low is not None:
            value = at_least(value, rest.pop(0))
        return at_most(value, rest.pop(0)) if high is not None else value

    return ctx.map(fn, operands, ctx.meta.dtype)


@lowers("clamp_min clamp_min.Tensor")
def _clamp_min(ctx: Context, x: Tensor, low: Operand) -> Tensor:
    return binary(at_least, ctx, x, held(low, ctx.meta.dtype))


@lowers("clamp_max clamp_max.Tensor")
def _clamp_max(ctx: Context, x: Tensor, high: Operand) -> Tensor:
    return binary(at_most, ctx, x, held(high, ctx.meta.dtype))


@lowers("_to_copy")
def _to_copy(ctx: Context, x: Tensor, **options: Any) -> Tensor:
    if str(ctx.meta.device) != ctx.program.device:
        raise Decline
    return convert(ctx, x, ctx.meta.dtype)


def convert(ctx: Context, x: Tensor, dtype: torch.dtype) -> Tensor:
    """An exact cast, rounding included."""
    target = types.of_torch(dtype)
    strides = ctx.meta_strides(x.shape) or ctx.strides_like(x.shape, [x])
    return ctx.make(x.shape, dtype, lambda where: cast(x.load(where), target), strides)


@lowers("clone")
def _clone(ctx: Context, x: Tensor, *, memory_format: Any = None) -> Tensor:
    strides = ctx.meta_strides(x.shape) or ctx.strides_like(x.shape, [x])
    return ctx.make(x.shape, x.dtype, x.load, strides)


@lowers("copy")
def _copy(ctx: Context, into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    type_name = into.type
    return ctx.make(into.shape, into.dtype, lambda where: cast(source.broadcast_load(where), type_name))


@lowers("gelu")
def _gelu(ctx: Context, x: Tensor, *, approximate: str = "none") -> Tensor:
    return unary(gelu_tanh if approximate == "tanh" else gelu_erf, ctx, x)


@lowers("leaky_relu")
def _leaky_relu(ctx: Context, x: Tensor, slope: float = 0.01) -> Tensor:
    return unary(lambda v: call("where", call("gt", v, number(v, 0)), v, times(v, slope)), ctx, x)


@lowers("elu")
def _elu(ctx: Context, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    def fn(v: Expr) -> Expr:
        negative = times(call("expm1", times(v, input_scale)), alpha * scale)
        return call("where", call("gt", v, number(v, 0)), times(v, scale), negative)

    return unary(fn, ctx, x)


@lowers("hardtanh")
def _hardtanh(ctx: Context, x: Tensor, low: float = -1, high: float = 1) -> Tensor:
    low, high = held(low, x.dtype), held(high, x.dtype)
    return unary(lambda v: hardtanh(v, low, high), ctx, x)


@lowers("softplus")
def _softplus(ctx: Context, x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return unary(lambda v: softplus(v, beta, threshold), ctx, x)


@lowers("threshold")
def _threshold(ctx: Context, x: Tensor, threshold: float, value: float) -> Tensor:
    return unary(lambda v: call("where", call("le", v, number(v, threshold)), number(v, value), v), ctx, x)


@lowers("hardshrink")
def _hardshrink(ctx: Context, x: Tensor, lambd: float = 0.5) -> Tensor:
    bound = rounded(lambd, ctx.meta.dtype)

    def fn(v: Expr) -> Expr:
        inside = call("and", call("ge", v, number(v, -bound)), call("le", v, number(v, bound)))
        return call("where", inside, number(v, 0), v)

    return unary(fn, ctx, x)


@lowers("softshrink")
def _softshrink(ctx: Context, x: Tensor, lambd: float = 0.5) -> Tensor:
    def fn(v: Expr) -> Expr:
        high, low = (as_stored(number(v, b), x.dtype) if SOFTSHRINK_ROUNDS_ITS_BOUND else number(v, b) for b in (lambd, -lambd))
        below = call("where", call("lt", v, low), minus(v, low), times(v, 0))
        return call("where", call("gt", v, high), minus(v, high), below)

    return unary(fn, ctx, x)


@lowers("prelu _prelu_kernel")
def _prelu(ctx: Context, x: Tensor, weight: Tensor) -> Tensor:
    if x.ndim != weight.ndim:
        raise Decline
    return binary(lambda v, w: call("where", call("gt", v, number(v, 0)), v, times(v, w)), ctx, x, weight)


@lowers("logit")
def _logit(ctx: Context, x: Tensor, eps: float | None = None) -> Tensor:
    if eps is not None and eps > 0.5:  # ATen asks for the lower bound first, and never for the other
        raise Decline

    def fn(stored: Step, v: Expr) -> Expr:
        if eps is not None:
            low = stored(number(v, eps))
            v = at_most(at_least(v, low), stored(minus(number(v, 1), low)))
        return call("log", stored(over(v, stored(minus(number(v, 1), v)))))

    return stepwise(fn, ctx, x)


@lowers("nan_to_num")
def _nan_to_num(ctx: Context, x: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    if not types.is_float(x.type):
        return ctx.copy(x, ctx.meta_strides(x.shape))
    limits = torch.finfo(x.dtype)
    replace_nan = 0.0 if nan is None else nan
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf

    def fn(v: Expr) -> Expr:
        finite = call("where", call("eq", v, number(v, math.inf)), number(v, high), v)
        finite = call("where", call("eq", v, number(v, -math.inf)), number(v, low), finite)
        return call("where", call("isnan", v), number(v, replace_nan), finite)

    return unary(fn, ctx, x)


@lowers("addcmul")
def _addcmul(ctx: Context, x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    return converted(lambda v, p, q: plus(v, times(times(p, value) if value != 1 else p, q)), ctx, x, a, b)


@lowers("addcdiv")
def _addcdiv(ctx: Context, x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    return converted(lambda v, p, q: plus(v, over(times(p, value) if value != 1 else p, q)), ctx, x, a, b)


@lowers("lerp.Scalar lerp.Tensor")
def _lerp(ctx: Context, a: Tensor, b: Tensor, weight: Operand) -> Tensor:
    def fn(x: Expr, y: Expr, w: Expr) -> Expr:
        # Two forms so that both ends are exact, as in eager.
        from_start = plus(x, times(w, minus(y, x)))
        from_end = minus(y, times(minus(y, x), call("sub", number(w, 1), w)))
        return call("where", call("lt", call("abs", w), number(w, 0.5)), from_start, from_end)

    if not isinstance(weight, Tensor):
        return ctx.map(fn, [a, b, weight], ctx.meta.dtype)
    return converted(fn, ctx, a, b, weight)
