"""C text of indices, constants, casts and pointwise ops."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence

from dynamo.faults import through
from inductor.ir.affine import Axis, Div, Index
from inductor.ir.dims import Dim, dim_text, is_known
from inductor.ir.expr import Expr, const_value
from inductor.ir.nest import Nest
from inductor.ir.types import TYPES
from inductor.targets.cpu.c.ops import C_OPS, C_TYPES, SUFFIX, UNSIGNED

GROUPED_STEP = 8  # widest step between neighbours that several reads are taken from together


def c_type(name: str) -> str:
    return C_TYPES[name]


def size_text(dim: Dim) -> str:
    """A size as a C expression of type long: a number, or one that the kernel is told."""
    return f"{dim_text(dim)}L" if is_known(dim) else f"p_{dim_text(dim)}"


def product_text(factors: Sequence[int | str]) -> str:
    """A product of numbers and C expressions, as one C expression."""
    number, others = math.prod(f for f in factors if isinstance(f, int)), [f for f in factors if isinstance(f, str)]
    if not others:
        return f"{number}L"
    return f"({' * '.join([f'{number}L', *others] if number != 1 else others)})"


def index_text(index: Index, name: Callable[[Axis], str], opaque: tuple[Axis, frozenset[int]] | None = None) -> str:
    """An index as a C expression of type long. The coefficients of one axis may be variables (see `far_steps`)."""
    parts: list[str] = []
    for atom, coef in index.terms:
        if isinstance(atom, Axis):
            text = name(atom)
            if opaque is not None and atom is opaque[0] and coef in opaque[1]:
                parts.append(f"{step_name(coef)}*{text}")
                continue
        else:
            inner = index_text(atom.of, name)
            never_negative = atom.of.bounds[0] >= 0
            if never_negative:
                text = f"(({inner}) {'/' if isinstance(atom, Div) else '%'} {atom.by})"
            else:
                text = f"{'floor_div' if isinstance(atom, Div) else 'floor_mod'}({inner}, {atom.by})"
        parts.append(text if coef == 1 else f"{coef}L*{text}")
    if index.const or not parts:
        parts.append(f"{index.const}L")
    return " + ".join(parts)


def far_steps(loops: Sequence[Axis], members: Iterable[Nest]) -> frozenset[int]:
    """The steps along the last of some loops in which the vectoriser must not see a constant.

    Of several reads of one buffer that are a constant apart and take the same constant step, gcc makes one access to the whole step,
    of which it picks the elements: up to a step of 4 that is the fastest way, at 8 it breaks even, at 16 it takes twice as long as
    reading the elements one by one, and at 4,096 it is 400 KB of machine code that take minutes to compile. One read becomes several
    where a loop around moves it by less than the step: gcc unrolls that loop and joins its turns.
    """
    *around, axis = loops
    reads: dict[tuple[str, int], set[Index]] = {}
    for load in (e for m in members for e in m.loads()):
        buffer, index = load.attr
        step = index.coef(axis)
        if abs(step) > GROUPED_STEP:
            turns = (index + index.coef(loop) for loop in around if 0 < abs(index.coef(loop)) < abs(step))
            reads.setdefault((buffer, step), set()).update([index, *turns])
    return frozenset(step for (_, step), indices in reads.items() if len(indices) > 1)


def step_name(step: int) -> str:
    return f"step{step}" if step > 0 else f"step_{-step}"


def step_lines(steps: Iterable[int]) -> list[str]:
    """Declarations of steps as variables whose value the compiler does not know."""
    return [f'long {step_name(s)} = {s}; __asm__("" : "+r"({step_name(s)}));' for s in sorted(steps)]


def float_text(value: float, type_name: str) -> str:
    if math.isnan(value):
        return "NAN"
    suffix = SUFFIX[type_name]
    if type_name == "f32" and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = f"{value!r}{suffix}"
    return f"({text})" if value < 0 or text.startswith("-") else text


def const_text(node: Expr) -> str:
    value = const_value(node)
    assert value is not None
    if TYPES[node.type].kind == "float":
        return float_text(float(value), node.type)
    if value == -(2**63):
        return "INT64_MIN"
    text = f"{value}L" if node.type == "i64" else f"{value}"
    return f"({text})" if value < 0 else text


def cast_text(value: str, source: str, target: str) -> str:
    """Conversions as torch does them on this machine."""
    if TYPES[source].compute != source:
        if target == "f32":
            return f"{source}_to_f32({value})"
        return cast_text(f"{source}_to_f32({value})", "f32", target)
    if TYPES[target].compute != target:
        return f"f32_to_{target}({value if source == 'f32' else f'(float){value}'})"
    if target == "bool":
        return f"({value} != 0)"
    if TYPES[source].kind == "float" and target == "u8":
        return f"((uint8_t)(int64_t){value})"
    if TYPES[source].kind == "float" and target in ("i8", "i16"):
        return f"(({c_type(target)})(int32_t){value})"
    if TYPES[source].kind == "float" and TYPES[target].kind != "float":
        return f"(({c_type(target)}){value} + none)"  # else gcc makes rounding of a cast to integers and back
    return f"(({c_type(target)}){value})"


def op_text(node: Expr, args: list[str]) -> str:
    """A pointwise op with its operands' texts filled in."""
    operand = node.args[-1].type
    template = through("print", template_of(node), node)
    return template.format(*args, t=c_type(node.type), u=UNSIGNED.get(operand, ""), s=SUFFIX.get(operand, ""))


def template_of(node: Expr) -> str:
    operand = node.args[-1].type
    template = C_OPS[node.op].for_operand(operand)
    if template is None:
        raise KeyError(f"{node.op} has no C form for {operand}")
    return template


def libm_used(nodes: list[Expr]) -> set[str]:
    """libm functions with suffix, for the prototypes at the top of the unit; the prelude has some of them for some types."""
    calls = [(f, n) for n in nodes if n.op in C_OPS for f in C_OPS[n.op].libm]
    return {f + SUFFIX.get(n.args[-1].type, "") for f, n in calls if f"{f}_f32" not in template_of(n)}
