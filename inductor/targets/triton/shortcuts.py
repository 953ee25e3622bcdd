"""Forms of several operations that take fewer instructions than one after the other, where the result is rounded to 16 bits."""

from __future__ import annotations

import math
from collections.abc import Iterable

from inductor.ir.expr import Expr, const_value, holds


def shortcut(node: Expr) -> tuple[str, Expr] | None:
    """The helper of `ops.py` that computes the node from one operand."""
    if node.op == "add":
        inner, other = node.args
        if const_value(other) == 1.0 and inner.op == "tanh":
            return "tanh_and_one", inner.args[0]
        scaled = inner.args[0] if inner.op == "erf" and const_value(other) == 1.0 else None
        if scaled is not None and scaled.op == "mul" and is_near(scaled.args[1], math.sqrt(0.5)):
            return "erf_and_one", scaled.args[0]
    if node.op == "div" and const_value(node.args[0]) == 1.0 and is_one_and_power(node.args[1]):
        return "rcp", node.args[1]
    return None


def is_near(node: Expr, value: float) -> bool:
    """Whether it is the constant, as float32 has it."""
    found = const_value(node)
    return found is not None and abs(found - value) < 1e-7


def is_one_and_power(node: Expr) -> bool:
    """`exp(v) + 1`: a divisor that is neither small nor negative."""
    return node.op == "add" and any(a.op == "exp" for a in node.args) and any(const_value(a) == 1.0 for a in node.args)


def rounded_in_pairs(nodes: Iterable[Expr]) -> frozenset[Expr]:
    """Casts from bfloat16 to float32 of what was rounded just before, where both are best one instruction for two values. Sums and
    products of bfloat16 numbers that are rounded are left alone: the assembler has instructions for them. Constants are folded."""
    nodes = list(nodes)
    rounded = {n.args[0] for n in nodes if n.op == "cast" and n.type == "bf16"}
    halves = {n for n in nodes if n in rounded and n.op in ("add", "sub", "mul") and all(holds(a, "bf16") for a in n.args)}
    found = {
        n
        for n in nodes
        if n.op == "cast" and n.type == "f32" and n.args[0].op == "cast" and n.args[0].type == "bf16"
        if n.args[0].args[0].type == "f32" and n.args[0].args[0].op != "const" and n.args[0].args[0] not in halves
    }
    wanted = {a for n in nodes if n not in halves for a in n.args}
    return frozenset(found & wanted)
