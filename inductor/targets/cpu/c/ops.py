"""How C writes the pointwise operations and the element types of the loop IR: one row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Template = str | Mapping[str, str]  # one template, or one per operand type with "" as the default


@dataclass(frozen=True)
class COp:
    """In templates {0}.. are operands, {s} is the libm suffix, {t} the type of the result and {u} the unsigned one of the operands."""

    template: Template
    libm: tuple[str, ...] = ()  # libm functions used, without suffix

    def for_operand(self, type_name: str) -> str | None:
        return self.template if isinstance(self.template, str) else self.template.get(type_name, self.template.get(""))


def _libm(name: str, arity: int) -> COp:
    operands = ", ".join(f"{{{i}}}" for i in range(arity))
    return COp(f"{name}{{s}}({operands})", libm=(name,))


_INT_WRAP = "({t})(({u}){0} %s ({u}){1})"  # signed overflow wraps in torch and is undefined in C


def _arith(symbol: str) -> COp:
    plain = f"({{0}} {symbol} {{1}})"
    return COp({"": _INT_WRAP % symbol, "f32": plain, "f64": plain})


C_OPS: dict[str, COp] = {
    "add": _arith("+"),
    "sub": _arith("-"),
    "mul": _arith("*"),
    "fma": COp({"f32": "FMA({0}, {1}, {2})", "f64": "FMA_F64({0}, {1}, {2})"}),
    "div": COp("({0} / {1})"),
    "neg": COp({"": "({t})(0 - ({u}){0})", "f32": "(-{0})", "f64": "(-{0})"}),
    "abs": COp({"": "({0} < 0 ? ({t})(0 - ({u}){0}) : {0})", "f32": "fabsf({0})", "f64": "fabs({0})", "u8": "{0}"}),
    "max": COp({"": "({0} > {1} ? {0} : {1})", "f32": "max_f32({0}, {1})", "f64": "max_f64({0}, {1})"}),
    "min": COp({"": "({0} < {1} ? {0} : {1})", "f32": "min_f32({0}, {1})", "f64": "min_f64({0}, {1})"}),
    "eq": COp("({0} == {1})"),
    "ne": COp("({0} != {1})"),
    "lt": COp("({0} < {1})"),
    "le": COp("({0} <= {1})"),
    "gt": COp("({0} > {1})"),
    "ge": COp("({0} >= {1})"),
    "and": COp("({t})({0} & {1})"),
    "or": COp("({t})({0} | {1})"),
    "xor": COp("({t})({0} ^ {1})"),
    "not": COp({"": "({t})(~{0})", "bool": "(!{0})"}),
    "where": COp("({0} ? {1} : {2})"),
    "isnan": COp("({0} != {0})"),
    "isinf": COp({"f32": "(fabsf({0}) == INFINITY)", "f64": "(fabs({0}) == INFINITY)"}),
    "philox": COp("philox_f32({0}, {1}, {2}, {3})"),
    "signbit": COp({"f32": "signbit_f32({0})", "f64": "signbit_f64({0})"}),
    "sqrt": COp("sqrt{s}({0})"),
    "floor": COp("floor{s}({0})"),
    "ceil": COp("ceil{s}({0})"),
    "trunc": COp("trunc{s}({0})"),
    "round": COp("rint{s}({0})"),
    "copysign": COp({"f32": "copysignf({0}, {1})", "f64": "copysign({0}, {1})"}),
    "fmod": _libm("fmod", 2),
    "remainder": COp({"f32": "remainder_f32({0}, {1})", "f64": "remainder_f64({0}, {1})"}),
    "floordiv": COp({"f32": "floordiv_f32({0}, {1})", "f64": "floordiv_f64({0}, {1})"}),
    "nextafter": _libm("nextafter", 2),
    "hypot": _libm("hypot", 2),
    "atan2": _libm("atan2", 2),
    "pow": _libm("pow", 2),
    "exp": COp({"f32": "exp_f32({0})", "f64": "exp({0})"}, libm=("exp",)),
    "exp2": _libm("exp2", 1),
    "expm1": _libm("expm1", 1),
    "log": _libm("log", 1),
    "log2": _libm("log2", 1),
    "log10": _libm("log10", 1),
    "log1p": _libm("log1p", 1),
    "sin": _libm("sin", 1),
    "cos": _libm("cos", 1),
    "tan": _libm("tan", 1),
    "asin": _libm("asin", 1),
    "acos": _libm("acos", 1),
    "atan": _libm("atan", 1),
    "sinh": _libm("sinh", 1),
    "cosh": _libm("cosh", 1),
    "tanh": _libm("tanh", 1),
    "asinh": _libm("asinh", 1),
    "acosh": _libm("acosh", 1),
    "atanh": _libm("atanh", 1),
    "erf": COp({"f32": "erf_f32({0})", "f64": "erf({0})"}, libm=("erf",)),
    "erfc": _libm("erfc", 1),
    "lgamma": _libm("lgamma", 1),
}

C_TYPES: dict[str, str] = {
    "f64": "double",
    "f32": "float",
    "bf16": "bf16",
    "f16": "f16",
    "i64": "int64_t",
    "i32": "int32_t",
    "i16": "int16_t",
    "i8": "int8_t",
    "u8": "uint8_t",
    "bool": "uint8_t",
}
UNSIGNED = {"i8": "uint8_t", "i16": "uint16_t", "i32": "uint32_t", "i64": "uint64_t", "u8": "uint8_t", "bool": "uint8_t"}
SUFFIX = {"f32": "f", "f64": ""}
