"""Zeros without memory, as the tangents are that operands of forward derivatives lack: eager knows them by their dispatch key.

In: one of the operators that ATen has a kernel of that key for, with such an operand. Out: what that kernel gives, whatever the other
operand is: infinite or missing numbers times such zeros are such zeros. Every other operator reads them as ordinary zeros.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from torch.fx import Node

from dynamo.ops.facts import is_view
from inductor.passes.row import Call, Replacement, Row, Seen, aten, called, row, same_facts, stands_for


def is_absent(value: Any) -> bool:
    """Such zeros, or a view of them."""
    while isinstance(value, Node) and (value.target in (operator.getitem, aten._unsafe_view.default) or is_view(value.target)):
        value = value.args[0]
    return called(value, aten._efficientzerotensor.default)


def filled(node: Node, target: Any, *value: float) -> Call:
    val = node.meta["val"]
    return Call(target, (list(val.shape), *value), (("dtype", val.dtype), ("device", val.device)))


def factor(node: Node, seen: Seen) -> Replacement:
    """z * x = x * z = z."""
    return filled(node, aten._efficientzerotensor.default) if any(map(is_absent, node.args)) else None


def quotient(node: Node, seen: Seen) -> Replacement:
    """z / x = z; x / z is infinite whatever the sign of x; z / z is not a number."""
    above, below = map(is_absent, node.args)
    if below:
        return filled(node, aten.full.default, math.nan if above else math.inf)
    return filled(node, aten._efficientzerotensor.default) if above else None


def term(node: Node, seen: Seen) -> Replacement:
    """x + z = z + x = x - z = x; z - x = x * -1; z + z = z. The sign of a zero stays, as it does where 0.0 is subtracted."""
    first, second = node.args[:2]
    left, right = is_absent(first), is_absent(second)
    if left and right:
        return filled(node, aten._efficientzerotensor.default)
    sign = -1 if node.target is aten.sub.Tensor else 1
    if right and isinstance(first, Node):
        return stands_for(node, first, seen) or (Call(aten.sub.Tensor, (first, second)) if sign == 1 else None)
    if not left or not isinstance(second, Node):
        return None
    scale = sign * node.kwargs.get("alpha", 1)  # type: ignore[operator]  # a number, by the schema
    if scale == 1:
        return stands_for(node, second, seen) or Call(aten.sub.Tensor, (second, first))
    return Call(aten.mul.Tensor, (second, scale)) if same_facts(node, second) else None


ROWS: tuple[Row, ...] = (
    row("zero factor", factor, aten.mul.Tensor, aten.mul.Scalar, is_meaning=True),
    row("zero quotient", quotient, aten.div.Tensor, is_meaning=True),
    row("zero term", term, aten.add.Tensor, aten.sub.Tensor, is_meaning=True),
)
