"""Triton text of indices, constants, casts and pointwise ops."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable

from inductor.ir.affine import Axis, Div, Index
from inductor.ir.expr import Expr, const_value, walk
from inductor.ir.types import TYPES, is_half
from inductor.targets.triton.ops import TRITON_OPS, TRITON_TYPES

# Between these a bare number is a float32 for Triton, and beyond them a float64.
SMALLEST, LARGEST = 2.0**-126, (2.0 - 2.0**-23) * 2.0**127


def index_text(index: Index, name: Callable[[Axis], str]) -> str:
    """An index as an expression of integers. Triton's `//` and `%` round towards zero, so what may be negative is made positive first."""
    parts: list[str] = []
    for atom, coef in index.terms:
        if isinstance(atom, Axis):
            text = name(atom)
        else:
            inner = index_text(atom.of, name)
            inner = inner if inner.isidentifier() else f"({inner})"
            if atom.of.bounds[0] >= 0 and not has_indirect(atom.of):
                text = f"({inner} {'//' if isinstance(atom, Div) else '%'} {atom.by})"
            else:
                rest = f"(({inner} % {atom.by} + {atom.by}) % {atom.by})"
                text = f"(({inner} - {rest}) // {atom.by})" if isinstance(atom, Div) else rest
        parts.append(text if coef == 1 else f"{text} * {coef}")
    if index.const or not parts:
        parts.append(str(index.const))
    return " + ".join(parts)


def has_indirect(index: Index) -> bool:
    return any(a.name.startswith("$") for a in index.axes)


def float_text(value: float) -> str:
    """A float32 in as few digits as it needs."""
    if math.isnan(value):
        return 'float("nan")'
    if math.isinf(value):
        return 'float("inf")' if value > 0 else 'float("-inf")'
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return 'float("inf")' if value > 0 else 'float("-inf")'
    for digits in range(1, 10):
        text = f"{single:.{digits}g}"
        if abs(float(text)) <= LARGEST and struct.unpack("f", struct.pack("f", float(text)))[0] == single:
            return repr(float(text))
    return repr(single)


def const_text(node: Expr, rank: int) -> str:
    """Only float32 and int32 are what Triton makes of a bare number."""
    value = const_value(node)
    assert value is not None
    if node.type == "f32" and not 0 < abs(value) < SMALLEST:
        return float_text(float(value))
    ones = f"[{', '.join('1' * rank)}]"
    if node.type == "bool":
        return f"tl.full({ones}, {int(value)}, tl.int1)"
    text = repr(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = f'float("{value}")'
    return f"tl.full({ones}, {text}, {TRITON_TYPES[node.type]})"


def cast_text(value: str, source: str, target: str) -> str:
    """Conversions as torch does them."""
    if target == "bool":
        return f"({value} != 0)"
    to = TRITON_TYPES[target]
    is_float, into_float = TYPES[source].kind == "float", TYPES[target].kind == "float"
    if is_half(source) and target != "f32":
        return cast_text(f"{value}.to(tl.float32)", "f32", target)
    if is_half(target) and source != "f32":
        return f"{value}.to(tl.float32).to({to})"
    if is_float and not into_float and target in ("u8", "i8", "i16"):
        return f"{value}.to({'tl.int64' if target == 'u8' else 'tl.int32'}).to({to})"
    return f"{value}.to({to})"


def op_text(node: Expr, args: list[str], *, is_fast: bool) -> str:
    """A pointwise op with its operands' texts filled in."""
    operand = node.args[-1].type
    template = TRITON_OPS[node.op].for_operand(operand, is_fast=is_fast)
    if template is None:
        raise KeyError(f"{node.op} has no Triton form for {operand}")
    return template.format(*args, t=TRITON_TYPES[operand])


def ends_in_halves(roots: Iterable[Expr]) -> frozenset[Expr]:
    """Values of which nothing is left but what is rounded to 16 bits: there a function may be off by a few units of float32."""
    exact: set[Expr] = set()
    todo = list(roots)
    everything = list(walk(*todo))
    while todo:
        node = todo.pop()
        if node not in exact:
            exact.add(node)
            todo += [] if node.op == "cast" and is_half(node.type) else node.args
    for node in everything:  # what is compared, counted or indexed with is exact, whatever becomes of it
        if node not in exact and TYPES[node.type].kind != "float":
            exact |= set(walk(node))
    return frozenset(e for e in everything if e not in exact)
