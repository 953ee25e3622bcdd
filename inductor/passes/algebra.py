"""Identities of arithmetic, those that hold for every bit pattern: NaN, infinities and the sign of zero included.

In: an operator with an operand that decides the result. Out: the operand, or a cheaper operator with the same result.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from inductor.passes.row import Call, Replacement, Row, Seen, aten, called, operand, row, stands_for


def is_number(value: Any, wanted: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == wanted


def is_floating(node: Node) -> bool:
    val = node.meta.get("val")
    return isinstance(val, torch.Tensor) and (val.dtype.is_floating_point or val.dtype.is_complex)


def times_one(node: Node, seen: Seen) -> Replacement:
    """x * 1 = x and x / 1 = x, where the dtype stays."""
    return stands_for(node, operand(node), seen) if is_number(node.args[1], 1) and not node.kwargs else None


def minus_zero(node: Node, seen: Seen) -> Replacement:
    """x - 0 = x. Not x + 0: that makes 0.0 of -0.0; for integers both."""
    if node.target is aten.add.Tensor and is_floating(node):
        return None
    return stands_for(node, operand(node), seen) if is_number(node.args[1], 0) and str(node.args[1]) != "-0.0" else None


def small_power(node: Node, seen: Seen) -> Replacement:
    """x ** 1 = x; x ** 2 = x * x, which is how ATen computes it. Higher powers round differently."""
    x, exponent = operand(node), node.args[1]
    if is_number(exponent, 1):
        return stands_for(node, x, seen)
    if x is not None and is_number(exponent, 2) and x.meta["val"].dtype == node.meta["val"].dtype and is_floating(node):
        return Call(aten.mul.Tensor, (x, x))
    return None


def inverse_twice(node: Node, seen: Seen) -> Replacement:
    """-(-x) = x; not(not x) = x of booleans; ~~x = x."""
    inner = operand(node)
    if inner is None or inner.target is not node.target:
        return None
    return stands_for(node, operand(inner), seen)  # facts tell `logical_not` of other dtypes apart


def idempotent(node: Node, seen: Seen) -> Replacement:
    """f(f(x)) = f(x) for relu, abs, ceil, floor, trunc, round, sign."""
    inner = operand(node)
    return stands_for(node, inner, seen) if inner is not None and inner.target is node.target else None


def same_choice(node: Node, seen: Seen) -> Replacement:
    """where(c, x, x) = x."""
    _, a, b = node.args
    return stands_for(node, a, seen) if isinstance(a, Node) and a is b else None


def never_negative(node: Node, seen: Seen) -> Replacement:
    """relu of a value that is never negative: relu(exp(x)), relu(sigmoid(x)), relu(abs(x)) are their operands."""
    inner = operand(node)
    positive = (aten.exp.default, aten.sigmoid.default, aten.abs.default)
    return stands_for(node, inner, seen) if inner is not None and called(inner, *positive) and is_floating(inner) else None


ROWS: tuple[Row, ...] = (
    row("times one", times_one, aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar),
    row("minus zero", minus_zero, aten.sub.Tensor, aten.sub.Scalar, aten.add.Tensor, aten.add.Scalar),
    row("small power", small_power, aten.pow.Tensor_Scalar),
    row("inverse twice", inverse_twice, aten.neg.default, aten.logical_not.default, aten.bitwise_not.default),
    row(
        "idempotent",
        idempotent,
        *(aten.relu.default, aten.abs.default, aten.ceil.default, aten.floor.default, aten.trunc.default, aten.round.default),
        aten.sign.default,
    ),
    row("same choice", same_choice, aten.where.self),
    row("never negative", never_negative, aten.relu.default),
)
