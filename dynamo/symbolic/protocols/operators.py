"""Operators and protocols over values: arithmetic, comparison, truth, length, items; iteration is in `iteration.py`.

Each follows CPython's own order: special methods of Python classes are inlined, constants are computed, tensors become graph
nodes, containers have rows in `registry.METHODS` under the slot wrapper that CPython would call.
"""

from __future__ import annotations

import functools
import operator
import types
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.inspection import HEAP, c_name, has_flag, is_library
from dynamo.surroundings.signals import let_through
from dynamo.symbolic.protocols.attributes import MISSING, class_function, getattr_, tx_call
from dynamo.symbolic.protocols.changing import computed, of_number
from dynamo.symbolic.protocols.choices import ChoiceValue, operands, tensor_of_choice
from dynamo.symbolic.protocols.tensor_numbers import arithmetic, negative
from dynamo.symbolic.protocols.wrap import SCALARS
from dynamo.symbolic.values.kinds import (
    FALSE,
    NOT_IMPLEMENTED,
    TRUE,
    BuiltinValue,
    ClassValue,
    Const,
    NumberValue,
    ObjectValue,
    OpaqueValue,
    TensorValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import NUMBERS
from dynamo.symbolic.values.slots import fill, slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

# symbol -> (special method, reflected method, in-place method or '', function on real objects, in-place function)
_BINARY: dict[str, tuple[str, str, Callable[..., Any], Callable[..., Any]]] = {
    "+": ("__add__", "__radd__", operator.add, operator.iadd),
    "-": ("__sub__", "__rsub__", operator.sub, operator.isub),
    "*": ("__mul__", "__rmul__", operator.mul, operator.imul),
    "/": ("__truediv__", "__rtruediv__", operator.truediv, operator.itruediv),
    "//": ("__floordiv__", "__rfloordiv__", operator.floordiv, operator.ifloordiv),
    "%": ("__mod__", "__rmod__", operator.mod, operator.imod),
    "**": ("__pow__", "__rpow__", operator.pow, operator.ipow),
    "@": ("__matmul__", "__rmatmul__", operator.matmul, operator.imatmul),
    "<<": ("__lshift__", "__rlshift__", operator.lshift, operator.ilshift),
    ">>": ("__rshift__", "__rrshift__", operator.rshift, operator.irshift),
    "&": ("__and__", "__rand__", operator.and_, operator.iand),
    "|": ("__or__", "__ror__", operator.or_, operator.ior),
    "^": ("__xor__", "__rxor__", operator.xor, operator.ixor),
}
_COMPARE: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "<": ("__lt__", "__gt__", operator.lt),
    "<=": ("__le__", "__ge__", operator.le),
    "==": ("__eq__", "__eq__", operator.eq),
    "!=": ("__ne__", "__ne__", operator.ne),
    ">": ("__gt__", "__lt__", operator.gt),
    ">=": ("__ge__", "__le__", operator.ge),
}
_UNARY: dict[str, tuple[str, Callable[..., Any], str]] = {
    "UNARY_NEGATIVE": ("__neg__", operator.neg, "-"),
    "UNARY_POSITIVE": ("__pos__", operator.pos, "+"),
    "UNARY_INVERT": ("__invert__", operator.invert, "~"),
}


def special(tx: Tracer, v: Value, name: str, *args: Value) -> Value | None:
    """Call the special method of v's class; None when the class has none (or sets it to None)."""
    raw = tx.lookup(v.cls, name)
    if raw is MISSING or raw is None:
        return None
    if type(raw) is types.FunctionType:
        return tx_call(tx, class_function(tx, raw), [v, *args])
    return tx_call(tx, BuiltinValue(raw) if not isinstance(raw, staticmethod) else tx.wrap(raw.__func__, None), [v, *args])


def binary(tx: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a symbol b`, in-place when the symbol ends in `=`."""
    inplace = symbol.endswith("=")
    name, rname, fn, ifn = _BINARY[symbol.rstrip("=")]
    if tx.has_choices and (isinstance(a, ChoiceValue) or isinstance(b, ChoiceValue)):
        a, b = operands(tx, symbol, a, b)
    if isinstance(a, NumberValue) or isinstance(b, NumberValue):
        made = arithmetic(tx, symbol, a, b)
        if made is not None:
            return made
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        if _tensor_operands(a, b) and not _overridden(tx, a, b, name, rname, *(["__i" + name[2:]] if inplace else [])):
            return tx.call_function(ifn if inplace and isinstance(a, TensorValue) else fn, [a, b], {})
    if isinstance(a, Const) and isinstance(b, Const):
        return _deferred(tx, symbol.rstrip("="), fn, a, b) or _fold(tx, ifn if inplace else fn, a, b)
    if inplace and not is_slot_of_sequence(tx, a.cls, "__i" + name[2:]):
        result = special(tx, a, "__i" + name[2:], b)
        if result is not None and result is not NOT_IMPLEMENTED:
            return result
    for operation in (_dispatch, concatenated, _repeated):
        result = operation(tx, name, rname, a, b, inplace)
        if result is not None:
            return result
    shown = symbol if symbol != "**" else "** or pow()"
    raise tx.throw(TypeError, f"unsupported operand type(s) for {shown}: '{c_name(a.cls)}' and '{c_name(b.cls)}'")


_SEQUENCES = (list, tuple, deque, str, bytes, bytearray)


def is_slot_of_sequence(tx: Tracer, cls: type, name: str) -> bool:
    """Whether C code finds a method among those of sequences (`sq_concat`, `sq_repeat`), which are asked after those of numbers."""
    raw = tx.lookup(cls, name)
    return isinstance(raw, types.WrapperDescriptorType) and raw.__objclass__ in _SEQUENCES and raw.__name__ not in ("__mod__", "__rmod__")


def concatenated(tx: Tracer, name: str, rname: str, a: Value, b: Value, inplace: bool) -> Value | None:
    """`a + b` of sequences, whose rows refuse what they are not concatenated with."""
    if name != "__add__" or not is_slot_of_sequence(tx, a.cls, name):
        return None
    in_place = inplace and is_slot_of_sequence(tx, a.cls, "__iadd__")
    return special(tx, a, "__iadd__" if in_place else name, b)


def _repeated(tx: Tracer, name: str, rname: str, a: Value, b: Value, inplace: bool) -> Value | None:
    """`a * b` where one of them is a sequence: it asks the other for an index."""
    if name != "__mul__":
        return None
    for v, times in ((a, b), (b, a)):
        if not is_slot_of_sequence(tx, v.cls, name):
            if inplace and v is a and _is_sequence(tx, a.cls):
                return None
            continue
        if tx.lookup(times.cls, "__index__") is MISSING:
            raise tx.throw(TypeError, f"can't multiply sequence by non-int of type '{c_name(times.cls)}'")
        if issubclass(v.cls, str | bytes):
            index = special(tx, times, "__index__")
            assert index is not None
            return special(tx, v, name, index)
        in_place = inplace and v is a and is_slot_of_sequence(tx, a.cls, "__imul__")
        return special(tx, v, "__imul__" if in_place else name, times)
    return None


def _tensor_operands(a: Value, b: Value) -> bool:
    """Whether torch's own operator handles the pair (a Python class may define the reflected method instead)."""
    other = b if isinstance(a, TensorValue) else a
    return isinstance(other, TensorValue | Const | NumberValue) or _is_number_member(other)


def _overridden(tx: Tracer, a: Value, b: Value, *names: str) -> bool:
    """Whether the program has put a method of its own into torch's class for one of these operators."""
    found = [tx.lookup(v.cls, name) for v in (a, b) if isinstance(v, TensorValue) for name in names if name]
    return any(type(raw) is types.FunctionType and not is_library(raw.__module__) for raw in found)


def _is_number_member(v: Value) -> bool:
    """A member of an IntEnum and the like: a number to C code."""
    return isinstance(v, ObjectValue) and v.obj is not None and isinstance(v.obj, int | float)


def _dispatch(tx: Tracer, name: str, rname: str, a: Value, b: Value, inplace: bool = False) -> Value | None:
    """CPython's binary dispatch to methods of numbers; None when both sides answer NotImplemented."""
    if inplace and is_slot_of_sequence(tx, a.cls, name) and isinstance(b, TensorValue):
        return None  # which a tensor leaves to the sequence
    order = [(a, name, b), (b, rname, a)]
    if a.cls is not b.cls and issubclass(b.cls, a.cls) and tx.lookup(b.cls, rname) is not tx.lookup(a.cls, rname):
        order.reverse()
    if a.cls is b.cls and name != rname:
        order = order[:1]
    for v, method, other in order:
        if is_slot_of_sequence(tx, v.cls, method):
            continue
        if name == "__mul__" and v.cls in NUMBERS and is_slot_of_sequence(tx, other.cls, name):
            continue  # NumPy's leave repeating to the sequence
        result = special(tx, v, method, other)
        if result is not None and not (isinstance(result, Const) and result.value is NotImplemented):
            return result
    if isinstance(a, TensorValue) or isinstance(b, TensorValue) or isinstance(a, OpaqueValue) or isinstance(b, OpaqueValue):
        raise tx.break_("DD006", f"{name} of {a.describe()} and {b.describe()}")
    return None


def _fold(tx: Tracer, fn: Callable[..., Any], *args: Const) -> Value:
    if tx.has_numbers and (found := computed(tx, fn, args)) is not None:
        return found
    values = [a.value for a in args]
    if any(a.cls in NUMBERS for a in args):
        return fold_numpy(tx, fn, values)
    try:
        return tx.wrap(fn(*values), None)
    except Exception as e:  # the program's own arithmetic error
        let_through(e)
        raise tx.throw(type(e), *e.args) from e


def fold_numpy(tx: Tracer, fn: Callable[..., Any], values: list[Any]) -> Value:
    """Arithmetic on NumPy's numbers; where that warns, each call of the program does."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = fn(*values)
        except Warning as e:
            raise tx.break_("DD009", f"{fn.__name__}: {e}", cause=e) from e
        except Exception as e:  # the program's own arithmetic error
            let_through(e)
            raise tx.throw(type(e), *e.args) from e
    if type(found) not in SCALARS:
        raise tx.break_("DD006", f"{fn.__name__} gives a {type(found).__name__}")
    return tx.wrap(found, None)


def _deferred(tx: Tracer, symbol: str, fn: Callable[..., Any], a: Const, b: Const) -> Value | None:
    """`n + 1` of an int that came in: computed again by the entry, and guarded only if something depends on its value.

    So a counter that is carried through resume functions doesn't make each of its values a variant.
    """
    if a.cls is not int or b.cls is not int or a.guarded or a.source is None or not b.guarded:
        return None
    is_counted = a.source.kind == "call"  # a counter that was counted up: what it is used for depends on little of it
    if symbol not in ("+", "-") and not (is_counted and symbol in ("*", "%", "//", "&") and b.value):
        return None
    return type(a)(fn(a.peek(), b.value), a.source.step("call", _add(fn, symbol, b.value)), tx)


@functools.cache
def _add(fn: Callable[..., Any], symbol: str, n: int) -> Callable[[Any], Any]:
    def add(x: Any) -> Any:
        return fn(x, n)

    add.__name__ = f"{symbol}{n}"
    return of_number(add)


def unary(tx: Tracer, op: str, v: Value) -> Value:
    name, fn, symbol = _UNARY[op]
    if isinstance(v, ChoiceValue) and v.is_tensor:
        v = tensor_of_choice(tx, v)
    if isinstance(v, TensorValue):
        return tx.call_function(fn, [v], {})
    if isinstance(v, Const):
        return _fold(tx, fn, v)
    if isinstance(v, NumberValue) and symbol == "-" and (negated := negative(tx, v)) is not None:
        return negated
    result = special(tx, v, name)
    if result is None:
        raise tx.throw(TypeError, f"bad operand type for unary {symbol}: '{c_name(v.cls)}'")
    return result


def compare(tx: Tracer, symbol: str, a: Value, b: Value) -> Value:
    name, rname, fn = _COMPARE[symbol]
    if tx.has_choices and (isinstance(a, ChoiceValue) or isinstance(b, ChoiceValue)):
        a, b = operands(tx, symbol, a, b)
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        other = b if isinstance(a, TensorValue) else a
        if isinstance(other, TensorValue | NumberValue) or (
            isinstance(other, Const) and other.value is not None and not isinstance(other.value, str)
        ):
            return tx.call_function(fn, [a, b], {})
        if symbol in ("==", "!=") and not isinstance(other, OpaqueValue) and not issubclass(other.cls, int | float | complex):
            answer = special(tx, other, name, b if other is a else a)  # torch has none, so that the other side is asked
            if answer is not None and not (isinstance(answer, Const) and answer.value is NotImplemented):
                return answer
            return TRUE if symbol == "!=" else FALSE
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold(tx, fn, a, b)
    if isinstance(a, NumberValue) or isinstance(b, NumberValue):
        made = arithmetic(tx, symbol, a, b)
        if made is not None:
            return made
    order = [(a, name, b), (b, rname, a)]
    if a.cls is not b.cls and issubclass(b.cls, a.cls):
        order.reverse()
    for v, method, other in order:
        result = special(tx, v, method, other)
        if result is not None and not (isinstance(result, Const) and result.value is NotImplemented):
            return result
    if symbol == "==":
        return TRUE if is_(tx, a, b) else FALSE
    if symbol == "!=":
        return FALSE if is_(tx, a, b) else TRUE
    raise tx.throw(TypeError, f"'{symbol}' not supported between instances of '{c_name(a.cls)}' and '{c_name(b.cls)}'")


def equal(tx: Tracer, a: Value, b: Value) -> bool:
    """Identity or ==, as containers compare."""
    if _is_one(a, b) or truth(tx, compare(tx, "==", a, b)):
        return True
    tx.rely_on_apart(a, b)
    return False


def is_(tx: Tracer, a: Value, b: Value) -> bool:
    """`a is b`."""
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        tx.guards.asked.add("is in torch" if tx.frames[-1].internal else "is")
    if _is_one(a, b):
        return True
    tx.rely_on_apart(a, b)
    return False


def _is_one(a: Value, b: Value) -> bool:
    for v in (a, b):
        if isinstance(v, ChoiceValue):
            raise v.tx.restart_plainly()
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        if a.cls is not b.cls:
            return False
        if a.cls in (int, str, float, bytes, complex, range):
            return a.value is b.value or bool(a.value == b.value)  # a NaN may be the same one
        return a.value is b.value
    if isinstance(a, ClassValue) and isinstance(b, ClassValue):
        return a.obj is b.obj
    x, y = getattr(a, "obj", None), getattr(b, "obj", None)
    return x is not None and x is y and not isinstance(a, Const)


def truth(tx: Tracer, v: Value) -> bool:
    """bool(v)."""
    result: bool = slots(v).truth(tx, v)
    return result


def _constant_truth(tx: Tracer, v: Const) -> bool:
    return bool((computed(tx, bool, [v]) or v).value) if tx.has_numbers else bool(v.value)


def _object_truth(tx: Tracer, v: Value) -> bool:
    for name in ("__bool__", "__len__"):
        raw = tx.lookup(v.cls, name)
        if raw is not MISSING and raw is not None:
            result = _length(tx, v) if name == "__len__" else special(tx, v, name)
            assert result is not None
            if name == "__bool__" and result.cls is not bool:
                raise tx.break_("DD009", f"__bool__ that gives {result.describe()}")
            return truth(tx, result)
    return True


def _length(tx: Tracer, v: Value) -> Value | None:
    """What `__len__` gives where that is a length, as it nearly always is; `len` brings other things to one or refuses them."""
    result = special(tx, v, "__len__")
    if result is not None and (result.cls is not int or (isinstance(result, Const) and result.value < 0)):
        raise tx.break_("DD009", f"__len__ that gives {result.describe()}")
    return result


def len_(tx: Tracer, v: Value) -> Value:
    """len(v)."""
    result: Value = slots(v).len(tx, v)
    return result


def _constant_len(tx: Tracer, v: Const) -> Value:
    return _fold(tx, len, v)


def _object_len(tx: Tracer, v: Value) -> Value:
    result = _length(tx, v)
    if result is None:
        raise tx.throw(TypeError, f"object of type '{c_name(v.cls)}' has no len()")
    return result


def getitem(tx: Tracer, owner: Value, key: Value) -> Value:
    """owner[key]."""
    result: Value = slots(owner).getitem(tx, owner, key)
    return result


def _constant_getitem(tx: Tracer, owner: Const, key: Value) -> Value:
    known = tx.try_python(key)
    if known is None:
        raise tx.break_("DD010", key.describe())
    return _fold(tx, operator.getitem, owner, Const(known[0]))


def _object_getitem(tx: Tracer, owner: Value, key: Value) -> Value:
    if owner.cls.__module__ == "typing":  # Optional[...] in annotations and casts
        known = tx.try_python(owner, key)
        if known is not None:
            return _fold(tx, operator.getitem, *map(Const, known))
    result = special(tx, owner, "__getitem__", key)
    if result is None:
        raise tx.throw(TypeError, f"'{c_name(owner.cls)}' object is not subscriptable")
    return result


def _class_getitem(tx: Tracer, owner: ClassValue, key: Value) -> Value:
    """`list[int]`, `MyEnum["name"]`, `Generic[T]`, and what the program says of its own classes."""
    if is_of_program(tx.lookup(owner.cls, "__getitem__")):
        return _object_getitem(tx, owner, key)
    own = tx.lookup(owner.obj, "__class_getitem__") if tx.lookup(owner.cls, "__getitem__") is MISSING else MISSING
    if isinstance(own, classmethod) and is_of_program(own.__func__):
        return tx_call(tx, getattr_(tx, owner, "__class_getitem__"), [key])
    known = tx.try_python(key)
    if known is None:
        raise tx.break_("DD010", key.describe())
    try:
        return tx.wrap(owner.obj[known[0]], None)  # type: ignore[index]  # a class that is not subscriptable raises the program's error
    except (TypeError, KeyError, SyntaxError) as e:  # the last of a text that is no type
        raise tx.throw(type(e), *e.args) from e


def is_of_program(raw: object) -> bool:
    """Whether it is Python code that may do anything: to be traced, and not run by the way."""
    return type(raw) is types.FunctionType and not is_library(str(raw.__globals__.get("__name__", "")))


def setitem(tx: Tracer, owner: Value, key: Value, v: Value) -> None:
    """owner[key] = v."""
    slots(owner).setitem(tx, owner, key, v)


def _object_setitem(tx: Tracer, owner: Value, key: Value, v: Value) -> None:
    if special(tx, owner, "__setitem__", key, v) is None:
        raise tx.throw(TypeError, f"'{c_name(owner.cls)}' object does not support item assignment")


def delitem(tx: Tracer, owner: Value, key: Value) -> None:
    if special(tx, owner, "__delitem__", key) is None:
        verb = "doesn't" if _is_sequence(tx, owner.cls) and tx.lookup(key.cls, "__index__") is not MISSING else "does not"
        raise tx.throw(TypeError, f"'{c_name(owner.cls)}' object {verb} support item deletion")


def _is_sequence(tx: Tracer, cls: type) -> bool:
    """Whether C code goes to the slots of a sequence (`tp_as_sequence`), which classes on the heap have in any case."""
    return has_flag(cls, HEAP) or any(tx.lookup(cls, name) is not MISSING for name in ("__len__", "__contains__", "__getitem__"))


def contains(tx: Tracer, owner: Value, v: Value) -> bool:
    """`v in owner`."""
    result: bool = slots(owner).contains(tx, owner, v)
    return result


def _constant_contains(tx: Tracer, owner: Const, v: Value) -> bool:
    known = tx.try_python(v)
    if known is not None:
        return bool(_fold(tx, operator.contains, owner, Const(known[0])).value)  # type: ignore[attr-defined]  # a bool constant
    if isinstance(owner.value, str):
        raise tx.throw(TypeError, f"'in <string>' requires string as left operand, not {c_name(v.cls)}")
    if isinstance(owner.value, bytes):
        index = special(tx, v, "__index__")
        if index is None:
            raise tx.throw(TypeError, f"a bytes-like object is required, not '{c_name(v.cls)}'")
        return contains(tx, owner, index)
    if not isinstance(owner.value, range):
        raise tx.throw(TypeError, NO_CONTAINER.format(c_name(owner.cls)))
    if tx.lookup(v.cls, "__eq__") is object.__eq__:
        return False
    return any(equal(tx, Const(n), v) for n in owner.value)


def _no_container() -> str:
    try:
        0 in None  # type: ignore[operator]  # noqa: B015  # the complaint is the point
    except TypeError as e:
        return str(e).replace("NoneType", "{}")
    raise AssertionError


NO_CONTAINER = _no_container()  # in the words of this version


fill(
    Value,
    truth=_object_truth,
    len=_object_len,
    getitem=_object_getitem,
    setitem=_object_setitem,
)
fill(
    Const,
    truth=_constant_truth,
    len=_constant_len,
    getitem=_constant_getitem,
    contains=_constant_contains,
)
fill(ClassValue, getitem=_class_getitem)
