"""Numbers that tensors hold, kept in the graph (`config.capture_scalar_outputs`): `x * x.sum().item()`.

Such a number is a tensor without dimensions, of Python's precision, and the entry makes a Python number of it where the program gets it.
Operators that do with that tensor what they do with the number take it; everything else breaks, with the number as a plain one. Shapes are
static, so a number that becomes a size, an index or an argument of another operator is of that kind.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo import config
from dynamo.symbolic.protocols.changing import Changing, tensor_of
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import Const, ListValue, NumberValue, TensorValue, Value
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]

# A list of more items than this stays a break: each would be a result of the graph.
_LIST_LIMIT = 64
# Integers up to here are floats without rounding.
_EXACT = 1 << 53

_KINDS: dict[type, torch.dtype] = {float: torch.float64, int: torch.int64, bool: torch.bool}
_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})


def wanted(name: str, t: TensorValue) -> bool:
    """Whether the number, or the numbers, that a method of a tensor gives can stay in the graph."""
    f = t.fake
    if not config.capture_scalar_outputs or f.device.type != "cpu" or f.dtype.is_complex or f.dtype in _UNSIGNED:
        return False  # other devices do arithmetic with numbers that differs from that with their tensors
    if name == "tolist":
        return 0 < f.numel() <= _LIST_LIMIT
    if f.numel() != 1:
        return False
    return name in ("item", "__float__") or (name == "__int__" and not f.dtype.is_floating_point)


def read(tx: Tracer, name: str, t: TensorValue) -> Value:
    """`t.item()`, `float(t)`, `int(t)`, `t.tolist()`."""
    if name == "tolist":
        return _list(tx, t)
    dtype = t.fake.dtype
    own = float if dtype.is_floating_point else bool if dtype is torch.bool else int
    return _number(tx, {"__float__": float, "__int__": int}.get(name, own), t)


def _number(tx: Tracer, cls: type, t: TensorValue) -> NumberValue:
    """Memory of its own: what the tensor holds later doesn't change the number."""
    v = tx.call_method("detach", [t], {})
    if t.fake.dim():
        v = tx.call_method("reshape", [v, tx.make_tuple([])], {})
    kind = _KINDS[cls]
    v = tx.call_method("to", [v, Const(kind)], {}) if t.fake.dtype != kind else tx.call_method("clone", [v], {})
    return _of(tx, cls, v)


def _of(tx: Tracer, cls: type, v: Value) -> NumberValue:
    assert isinstance(v, TensorValue)
    tx.has_numbers = True
    return NumberValue(cls, v)


def _list(tx: Tracer, t: TensorValue) -> Value:
    if t.fake.dim() == 0:
        return read(tx, "item", t)
    rows: list[Value] = []
    for i in range(t.fake.shape[0]):
        row = tx.call_method("select", [t, Const(0), Const(i)], {})
        assert isinstance(row, TensorValue)
        rows.append(_list(tx, row) if row.fake.numel() else ListValue([]))
    return tx.make_list(rows)


# ---- as operands of tensors -------------------------------------------------------------------------------

_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "truediv", "true_divide", "subtract", "multiply", "divide"})
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_TAKES = frozenset(
    {
        *(form for name in _ARITHMETIC for form in (name, name + "_", "i" + name, f"__{name}__", f"__i{name}__")),
        *(form for name in _COMPARISONS for form in (name, name + "_", f"__{name}__")),
    }
)


def as_operands(tx: Tracer, name: str, args: Args) -> Args:
    """The arguments of an operator of the graph with the tensors of its numbers, where that is the same; the others break later."""
    if name not in _TAKES or len(args) != 2:
        return args
    for i in (0, 1):
        number, other = args[i], args[1 - i]
        if isinstance(number, NumberValue | Changing) and isinstance(other, TensorValue):
            if i == 0 and "div" in name:
                return args  # torch multiplies the number with the reciprocal
            operand = _operand(tx, number, other.fake)
            if operand is not None:
                return [operand, other] if i == 0 else [other, operand]
    return args


def _operand(tx: Tracer, number: NumberValue | Changing, other: Any) -> Value | None:
    """A tensor without dimensions that decides on the result's type, and is computed with, as the number is."""
    if other.device.type != "cpu" or number.cls not in _KINDS:
        return None
    if number.cls is int and not other.dtype.is_floating_point and not other.dtype.is_complex and other.dtype is not torch.int64:
        return None  # torch checks the range of a number, and not that of a tensor
    result = torch.result_type(other, number.cls(1))
    same = torch.result_type(other, torch.empty((), dtype=_KINDS[number.cls], device="cpu")) is result
    if not same and result not in (torch.float32, torch.float64):
        return None  # the smaller types compute with the unrounded number
    tensor = number.tensor if isinstance(number, NumberValue) else None if number.guarded else tensor_of(tx, number)
    if tensor is None or same:
        return tensor
    return tx.call_method("to", [tensor, Const(result)], {})


# ---- Python's arithmetic ----------------------------------------------------------------------------------

_PYTHON: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def arithmetic(tx: Tracer, symbol: str, a: Value, b: Value) -> Value | None:
    """A float combined with a number: in Python's precision, where neither side can raise; None for anything else."""
    fn = _PYTHON.get(symbol.rstrip("=") if symbol in ("+=", "-=", "*=") else symbol)
    if fn is None or float not in (a.cls, b.cls):
        return None
    parts = [_part(v) for v in (a, b)]
    if None in parts:
        return None
    made = tx.call_function(fn, [p for p in parts if p is not None], {})
    return _of(tx, bool if symbol in ("<", "<=", "==", "!=", ">", ">=") else float, made)


def _part(v: Value) -> Value | None:
    if isinstance(v, NumberValue):
        return v.tensor if v.cls is float else None
    if isinstance(v, Const) and (v.cls is float or (v.cls is int and abs(v.value) <= _EXACT)):
        return v
    return None


def negative(tx: Tracer, v: NumberValue) -> Value | None:
    """`-s` of a float."""
    return _of(tx, float, tx.call_function(operator.neg, [v.tensor], {})) if v.cls is float else None


def refused(tx: Tracer, what: str) -> BreakError:
    """The break for what needs the number itself."""
    return tx.break_("DD003", f"{what} of a number that a tensor holds (capture_scalar_outputs keeps it for tensor arithmetic only)")


fill(NumberValue, Changing, operands=as_operands)
