"""Forms of several operations that take fewer instructions than one after the other, where the result is rounded to 16 bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import torch

from inductor.ir.expr import Expr, const_value, holds
from inductor.ir.philox import number_of


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


def words_below(node: Expr) -> int | None:
    """For a random number that is compared with a constant: how many of the words that it is made of stand for less. None where all do,
    or none. A number grows with its word, so these are the first words."""
    limit = const_value(node.args[1]) if node.op == "lt" and node.args[0].op == "philox" else None
    below = count_below(float(limit)) if limit is not None else 0
    return below if 0 < below < WORDS else None


WORDS = 1 << 32


@functools.cache
def count_below(limit: float) -> int:
    """Of the words of 32 bits, those whose number is less."""
    low, high = 0, WORDS
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if float(number_of(torch.tensor(middle))) < limit else (low, middle)
    return low


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
