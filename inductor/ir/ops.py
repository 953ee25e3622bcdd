"""The pointwise operations of the loop IR: one row each.

A row says how many operands the op has, the type of its result, what it costs next to an addition, how C writes it, and
which torch function the reference interpreter uses. Integer division is absent on purpose: eager raises on a zero
divisor, so it stays an ATen call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Template = str | Mapping[str, str]  # one C template, or one per operand type with "" as the default


@dataclass(frozen=True)
class Op:
    """`result` is "same" (type of the last operand), "bool", or a type name. In templates {0}.. are operands, {s} is the libm suffix."""

    name: str
    arity: int
    c: Template
    torch: Callable[..., Any]
    cost: int = 1
    result: str = "same"
    libm: tuple[str, ...] = field(default=())  # libm functions used, without suffix


def _libm(name: str, arity: int, fn: Callable[..., Any], cost: int) -> Op:
    operands = ", ".join(f"{{{i}}}" for i in range(arity))
    return Op(name, arity, f"{name}{{s}}({operands})", fn, cost, libm=(name,))


def _compare(name: str, symbol: str, fn: Callable[..., Any]) -> Op:
    return Op(name, 2, f"({{0}} {symbol} {{1}})", fn, 1, "bool")


_INT_WRAP = "({t})(({u}){0} %s ({u}){1})"  # signed overflow wraps in torch and is undefined in C


def _arith(name: str, symbol: str, fn: Callable[..., Any]) -> Op:
    plain = f"({{0}} {symbol} {{1}})"
    return Op(name, 2, {"": _INT_WRAP % symbol, "f32": plain, "f64": plain}, fn)


def _fused(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a.double() * b.double() + c.double()).to(c.dtype)


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        _arith("add", "+", torch.add),
        _arith("sub", "-", torch.sub),
        _arith("mul", "*", torch.mul),
        Op("fma", 3, {"f32": "FMA({0}, {1}, {2})", "f64": "FMA_F64({0}, {1}, {2})"}, _fused),
        Op("div", 2, "({0} / {1})", torch.div, 4),
        Op("neg", 1, {"": "({t})(0 - ({u}){0})", "f32": "(-{0})", "f64": "(-{0})"}, torch.neg),
        Op("abs", 1, {"": "({0} < 0 ? ({t})(0 - ({u}){0}) : {0})", "f32": "fabsf({0})", "f64": "fabs({0})", "u8": "{0}"}, torch.abs),
        Op("max", 2, {"": "({0} > {1} ? {0} : {1})", "f32": "max_f32({0}, {1})", "f64": "max_f64({0}, {1})"}, torch.maximum),
        Op("min", 2, {"": "({0} < {1} ? {0} : {1})", "f32": "min_f32({0}, {1})", "f64": "min_f64({0}, {1})"}, torch.minimum),
        _compare("eq", "==", torch.eq),
        _compare("ne", "!=", torch.ne),
        _compare("lt", "<", torch.lt),
        _compare("le", "<=", torch.le),
        _compare("gt", ">", torch.gt),
        _compare("ge", ">=", torch.ge),
        Op("and", 2, "({t})({0} & {1})", torch.bitwise_and),
        Op("or", 2, "({t})({0} | {1})", torch.bitwise_or),
        Op("xor", 2, "({t})({0} ^ {1})", torch.bitwise_xor),
        Op("not", 1, {"": "({t})(~{0})", "bool": "(!{0})"}, torch.bitwise_not),
        Op("where", 3, "({0} ? {1} : {2})", torch.where),
        Op("isnan", 1, "({0} != {0})", torch.isnan, 1, "bool"),
        Op("isinf", 1, {"f32": "(fabsf({0}) == INFINITY)", "f64": "(fabs({0}) == INFINITY)"}, torch.isinf, 1, "bool"),
        Op("signbit", 1, {"f32": "signbit_f32({0})", "f64": "signbit_f64({0})"}, torch.signbit, 1, "bool"),
        Op("sqrt", 1, "sqrt{s}({0})", torch.sqrt, 5),
        Op("floor", 1, "floor{s}({0})", torch.floor),
        Op("ceil", 1, "ceil{s}({0})", torch.ceil),
        Op("trunc", 1, "trunc{s}({0})", torch.trunc),
        Op("round", 1, "rint{s}({0})", torch.round),
        Op("copysign", 2, {"f32": "copysignf({0}, {1})", "f64": "copysign({0}, {1})"}, torch.copysign),
        _libm("fmod", 2, torch.fmod, 40),
        Op("remainder", 2, {"f32": "remainder_f32({0}, {1})", "f64": "remainder_f64({0}, {1})"}, torch.remainder, 40),
        Op("floordiv", 2, {"f32": "floordiv_f32({0}, {1})", "f64": "floordiv_f64({0}, {1})"}, torch.floor_divide, 45),
        _libm("nextafter", 2, torch.nextafter, 20),
        _libm("hypot", 2, torch.hypot, 12),
        _libm("atan2", 2, torch.atan2, 14),
        _libm("pow", 2, torch.pow, 25),
        Op("exp", 1, {"f32": "exp_f32({0})", "f64": "exp({0})"}, torch.exp, 8, libm=("exp",)),
        _libm("exp2", 1, torch.exp2, 8),
        _libm("expm1", 1, torch.expm1, 12),
        _libm("log", 1, torch.log, 8),
        _libm("log2", 1, torch.log2, 8),
        _libm("log10", 1, torch.log10, 8),
        _libm("log1p", 1, torch.log1p, 10),
        _libm("sin", 1, torch.sin, 8),
        _libm("cos", 1, torch.cos, 8),
        _libm("tan", 1, torch.tan, 12),
        _libm("asin", 1, torch.asin, 10),
        _libm("acos", 1, torch.acos, 10),
        _libm("atan", 1, torch.atan, 8),
        _libm("sinh", 1, torch.sinh, 12),
        _libm("cosh", 1, torch.cosh, 12),
        _libm("tanh", 1, torch.tanh, 10),
        _libm("asinh", 1, torch.asinh, 12),
        _libm("acosh", 1, torch.acosh, 12),
        _libm("atanh", 1, torch.atanh, 12),
        Op("erf", 1, {"f32": "erf_f32({0})", "f64": "erf({0})"}, torch.erf, 8, libm=("erf",)),
        _libm("erfc", 1, torch.erfc, 12),
        _libm("lgamma", 1, torch.lgamma, 60),
    )
}

# Ops whose result is one of their operands, up to its sign.
CHOOSING = frozenset({"max", "min", "where", "neg", "abs", "copysign"})

REDUCTIONS: dict[str, int] = {
    # kind -> number of outputs
    "sum": 1,
    "prod": 1,
    "max": 1,
    "min": 1,
    "any": 1,
    "all": 1,
    "argmax": 1,  # position along the (only) reduced axis order; first of equals, NaN wins
    "argmin": 1,
    "welford": 2,  # mean, sum of squared deviations
    "online_softmax": 2,  # max, sum of exp(x - max)
}

SCANS = ("sum", "prod")
