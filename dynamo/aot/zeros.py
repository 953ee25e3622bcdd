"""Zeros without memory, as the tangents are that operands of forward derivatives lack: eager knows them by their dispatch key.

ATen has kernels of that key for a few operators, which give such zeros again (or an infinity, or the other operand) whatever the other
operand is: infinite numbers times such zeros are such zeros. A trace computes with ordinary fakes, so it records what these kernels
would give. Views show such zeros as such, `LIKE` have their layout; every other operator reads them as ordinary ones.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node

from dynamo.fake import FakeTensor
from dynamo.ops.facts import facts_of

aten = torch.ops.aten
ZEROS = aten._efficientzerotensor.default
_LIKE = (aten.clone, aten.zeros_like, aten.ones_like, aten.empty_like, aten.full_like, aten._unsafe_view)
LIKE = frozenset(op.default for op in _LIKE)
Emit = Callable[..., Any]


def is_absent(value: Any) -> bool:
    """Such zeros, or a view of them."""
    while isinstance(value, Node) and (value.target is operator.getitem or _shows(value.target)):
        value = value.args[0]
    return isinstance(value, Node) and value.target is ZEROS


def _shows(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and (facts_of(target).views or target is aten._unsafe_view.default)


def _made(emit: Emit, val: FakeTensor, op: Any, *value: float) -> Node:
    node: Node = emit(op, list(val.shape), *value, dtype=val.dtype, device=val.fake_device)
    return node


def _product(emit: Emit, val: FakeTensor, operands: Sequence[Any], alpha: float) -> Node | None:
    """z * x = x * z = z."""
    return _made(emit, val, ZEROS)


def _quotient(emit: Emit, val: FakeTensor, operands: Sequence[Any], alpha: float) -> Node | None:
    """z / x = z; x / z is infinite whatever the sign of x; z / z is not a number."""
    above, below = map(is_absent, operands)
    return _made(emit, val, aten.full.default, math.nan if above else math.inf) if below else _made(emit, val, ZEROS)


def _sum(emit: Emit, val: FakeTensor, operands: Sequence[Any], alpha: float) -> Node | None:
    """z + z = z; of x and z a copy of x, or of its multiple: zeros keep their sign."""
    left, right = map(is_absent, operands)
    if left and right:
        return _made(emit, val, ZEROS)
    other = operands[1] if left else operands[0]
    if not isinstance(other, Node):
        return None
    node: Node = emit(aten._to_copy.default, emit(aten.expand.default, other, list(val.shape)), dtype=val.dtype)
    return emit(aten.mul.Tensor, node, alpha) if left and alpha != 1 else node


_ROWS: dict[Any, tuple[Callable[..., Node | None], int]] = {
    aten.mul.Tensor: (_product, 1),
    aten.mul.Scalar: (_product, 1),
    aten.dot.default: (_product, 1),
    aten.vdot.default: (_product, 1),
    aten.linalg_cross.default: (_product, 1),
    aten.div.Tensor: (_quotient, 1),
    aten.add.Tensor: (_sum, 1),
    aten.sub.Tensor: (_sum, -1),
}


def computed(func: Any, operands: Sequence[Any], alpha: Any, emit: Emit, result: Callable[[], FakeTensor]) -> Node | None:
    """The node of what a kernel for such zeros gives; None where there is none, or none of the operands is such. `result`: its facts."""
    row = _ROWS.get(func)
    if row is None or not any(map(is_absent, operands)):
        return None
    compute, sign = row
    return compute(emit, result(), operands, sign * alpha)
