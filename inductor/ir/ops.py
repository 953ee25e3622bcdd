"""The pointwise operations of the loop IR: one row each.

A row says how many operands the op has, which torch function the reference interpreter uses, what it costs next to an addition, and
the type of its result. How a target writes it is the target's own table. Integer division is absent on purpose: eager raises on a zero
divisor, so it stays an ATen call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inductor.ir.philox import philox


@dataclass(frozen=True)
class Op:
    """`result` is "same" (type of the last operand), "bool", or a type name.

    `exact` is what the interpreter computes where torch's function leaves something open.
    """

    name: str
    arity: int
    torch: Callable[..., Any]
    cost: int = 1
    result: str = "same"
    exact: Callable[..., Any] | None = None

    def interpret(self, *operands: Any) -> Any:
        return (self.exact or self.torch)(*operands)


def _fused(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a.double() * b.double() + c.double()).to(c.dtype)


def _larger(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The second of equal ones, which two zeros are too, and NaN where either is."""
    return torch.where((a > b) | a.isnan(), a, b)


def _smaller(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.where((a < b) | a.isnan(), a, b)


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("add", 2, torch.add),
        Op("sub", 2, torch.sub),
        Op("mul", 2, torch.mul),
        Op("fma", 3, _fused),
        Op("div", 2, torch.div, 4),
        Op("neg", 1, torch.neg),
        Op("abs", 1, torch.abs),
        Op("max", 2, torch.maximum, exact=_larger),
        Op("min", 2, torch.minimum, exact=_smaller),
        Op("eq", 2, torch.eq, result="bool"),
        Op("ne", 2, torch.ne, result="bool"),
        Op("lt", 2, torch.lt, result="bool"),
        Op("le", 2, torch.le, result="bool"),
        Op("gt", 2, torch.gt, result="bool"),
        Op("ge", 2, torch.ge, result="bool"),
        Op("and", 2, torch.bitwise_and),
        Op("or", 2, torch.bitwise_or),
        Op("xor", 2, torch.bitwise_xor),
        Op("not", 1, torch.bitwise_not),
        Op("where", 3, torch.where),
        Op("isnan", 1, torch.isnan, result="bool"),
        Op("isinf", 1, torch.isinf, result="bool"),
        Op("signbit", 1, torch.signbit, result="bool"),
        Op("sqrt", 1, torch.sqrt, 5),
        Op("floor", 1, torch.floor),
        Op("ceil", 1, torch.ceil),
        Op("trunc", 1, torch.trunc),
        Op("round", 1, torch.round),
        Op("copysign", 2, torch.copysign),
        Op("fmod", 2, torch.fmod, 40),
        Op("remainder", 2, torch.remainder, 40),
        Op("floordiv", 2, torch.floor_divide, 45),
        Op("nextafter", 2, torch.nextafter, 20),
        Op("hypot", 2, torch.hypot, 12),
        Op("atan2", 2, torch.atan2, 14),
        Op("pow", 2, torch.pow, 25),
        Op("exp", 1, torch.exp, 8),
        Op("exp2", 1, torch.exp2, 8),
        Op("expm1", 1, torch.expm1, 12),
        Op("log", 1, torch.log, 8),
        Op("log2", 1, torch.log2, 8),
        Op("log10", 1, torch.log10, 8),
        Op("log1p", 1, torch.log1p, 10),
        Op("sin", 1, torch.sin, 8),
        Op("cos", 1, torch.cos, 8),
        Op("tan", 1, torch.tan, 12),
        Op("asin", 1, torch.asin, 10),
        Op("acos", 1, torch.acos, 10),
        Op("atan", 1, torch.atan, 8),
        Op("sinh", 1, torch.sinh, 12),
        Op("cosh", 1, torch.cosh, 12),
        Op("tanh", 1, torch.tanh, 10),
        Op("asinh", 1, torch.asinh, 12),
        Op("acosh", 1, torch.acosh, 12),
        Op("atanh", 1, torch.atanh, 12),
        Op("erf", 1, torch.erf, 8),
        Op("erfc", 1, torch.erfc, 12),
        Op("lgamma", 1, torch.lgamma, 60),
        Op("philox", 4, philox, 40, result="f32"),  # of seed, counter, thread and lane
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
