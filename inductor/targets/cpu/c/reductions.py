"""How each reduction accumulates: a row of C templates.

An accumulator is one or more arrays of lanes. `{x}` is the new value, `{p}` its position, `{a}`/`{b}` indexed lanes of
the first and second operand of a combine; `{0}`.. name the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor.ir.expr import Expr, const_value
from inductor.ir.types import TYPES

ADD_PRODUCT = {"f32": "{0}[{l}] = FMA({x}, {y}, {0}[{l}]);", "f64": "{0}[{l}] = FMA_F64({x}, {y}, {0}[{l}]);"}


@dataclass(frozen=True)
class Accumulator:
    """`parts`: (type, initial value) of each array, where type "" means the operand's."""

    parts: tuple[tuple[str, str], ...]
    update: str
    combine: str
    results: tuple[str, ...]
    is_sum: bool = False


_ARG = (
    "int take{l0} = {x} {cmp} {0}[{l}] || ({x} != {x} && {0}[{l}] == {0}[{l}]);"
    " {1}[{l}] = take{l0} ? ({p}) : {1}[{l}]; {0}[{l}] = take{l0} ? {x} : {0}[{l}];"
)
# Where the loops do not run in the order of positions, the first of equals need not be the first that is met.
_ARG_ANY_ORDER = _ARG.replace(
    "int take{l0} = ",
    "int same{l0} = {x} == {0}[{l}] || ({x} != {x} && {0}[{l}] != {0}[{l}]), take{l0} = same{l0} ? ({p}) < {1}[{l}] : ",
)
_ARG_COMBINE = (
    "{{ int an = {0}[{l}] != {0}[{l}], bn = {0}[{m}] != {0}[{m}];"
    " int same = ({0}[{m}] == {0}[{l}]) || (an && bn);"
    " int take = same ? {1}[{m}] < {1}[{l}] : (bn || (!an && {0}[{m}] {cmp} {0}[{l}]));"
    " {0}[{l}] = take ? {0}[{m}] : {0}[{l}]; {1}[{l}] = take ? {1}[{m}] : {1}[{l}]; }}"
)


def lowest(type_name: str) -> str:
    row = TYPES[type_name]
    if row.kind == "float":
        return "-INFINITY"
    return {"i64": "INT64_MIN", "i32": "INT32_MIN", "i16": "INT16_MIN", "i8": "INT8_MIN"}.get(type_name, "0")


def highest(type_name: str) -> str:
    row = TYPES[type_name]
    if row.kind == "float":
        return "INFINITY"
    return {"i64": "INT64_MAX", "i32": "INT32_MAX", "i16": "INT16_MAX", "i8": "INT8_MAX", "u8": "255"}.get(type_name, "1")


def accumulator(kind: str, type_name: str, position_type: str = "i64", *, in_order: bool = True) -> Accumulator:
    """The templates of one reduction over operands of one type; positions are kept in `position_type`, and met in order or not."""
    is_float = TYPES[type_name].kind == "float"
    high = f"max_{type_name}({{0}}[{{l}}], {{y}})" if is_float else "{0}[{l}] > {y} ? {0}[{l}] : {y}"
    low = f"min_{type_name}({{0}}[{{l}}], {{y}})" if is_float else "{0}[{l}] < {y} ? {0}[{l}] : {y}"

    def simple(initial: str, step: str, *, is_sum: bool = False) -> Accumulator:
        text = "{0}[{l}] = " + step + ";"
        return Accumulator((("", initial),), text.replace("{y}", "{x}"), text.replace("{y}", "{0}[{m}]"), ("{0}[0]",), is_sum)

    def position(initial: str, comparison: str) -> Accumulator:
        update = (_ARG if in_order else _ARG_ANY_ORDER).replace("{cmp}", comparison)
        return Accumulator((("", initial), (position_type, "0")), update, _ARG_COMBINE.replace("{cmp}", comparison), ("{1}[0]",))

    rows = {
        "sum": lambda: simple("0", "{0}[{l}] + {y}", is_sum=is_float),
        "prod": lambda: simple("1", "{0}[{l}] * {y}"),
        "max": lambda: simple(lowest(type_name), high),
        "min": lambda: simple(highest(type_name), low),
        "any": lambda: simple("0", "{0}[{l}] | {y}"),
        "all": lambda: simple("1", "{0}[{l}] & {y}"),
        "argmax": lambda: position(lowest(type_name), ">"),
        "argmin": lambda: position(highest(type_name), "<"),
        "welford": lambda: _welford(),
        "online_softmax": lambda: _online(type_name),
    }
    return rows[kind]()


def _welford() -> Accumulator:
    update = "{2}[{l}] += 1; {t} d{l0} = {x} - {0}[{l}]; {0}[{l}] += d{l0} / {2}[{l}]; {1}[{l}] += d{l0} * ({x} - {0}[{l}]);"
    combine = (
        "{{ {t} n = {2}[{l}] + {2}[{m}], d = {0}[{m}] - {0}[{l}], w = n == 0 ? 0 : {2}[{m}] / n;"
        " {0}[{l}] += d * w; {1}[{l}] += {1}[{m}] + d * (d * ({2}[{l}] * w)); {2}[{l}] = n; }}"
    )
    return Accumulator((("", "0"), ("", "0"), ("", "0")), update, combine, ("{0}[0]", "{1}[0]"))


def _online(type_name: str) -> Accumulator:
    grow = "exp_f32" if type_name == "f32" else "exp"
    update = (
        f"{{t}} h{{l0}} = max_{type_name}({{0}}[{{l}}], {{x}}), k{{l0}} = {{0}}[{{l}}] == h{{l0}} ? 1 : {grow}({{0}}[{{l}}] - h{{l0}});"
        f" {{1}}[{{l}}] = {{1}}[{{l}}] * k{{l0}} + ({{x}} == h{{l0}} ? 1 : {grow}({{x}} - h{{l0}})); {{0}}[{{l}}] = h{{l0}};"
    )
    combine = (
        f"{{{{ {{t}} h = max_{type_name}({{0}}[{{l}}], {{0}}[{{m}}]);"
        f" {{1}}[{{l}}] = {{1}}[{{l}}] * ({{0}}[{{l}}] == h ? 1 : {grow}({{0}}[{{l}}] - h))"
        f" + {{1}}[{{m}}] * ({{0}}[{{m}}] == h ? 1 : {grow}({{0}}[{{m}}] - h)); {{0}}[{{l}}] = h; }}}}"
    )
    return Accumulator((("", "-INFINITY"), ("", "0")), update, combine, ("{0}[0]", "{1}[0]"))


def is_term(operand: Expr) -> bool:
    """A product that is added to a running sum unrounded (see `lowering/contract.py`)."""
    if operand.op != "fma":
        return False
    value = const_value(operand.args[2])
    return value == 0 and str(value) == "-0.0"
