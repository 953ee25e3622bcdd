"""The operator module: functions on the interpreter's own operators, and its three callable classes."""

from __future__ import annotations

import _operator
import functools
import operator
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING, tx_call
from dynamo.symbolic.protocols.containers import bool_, index_of, is_iterable, size_of
from dynamo.symbolic.protocols.operators import (
    NO_CONTAINER,
    binary,
    compare,
    concatenated,
    contains,
    delitem,
    getitem,
    is_,
    is_slot_of_sequence,
    len_,
    setitem,
    truth,
    unary,
)
from dynamo.symbolic.protocols.registry import FUNCTIONS, METHODS
from dynamo.symbolic.protocols.rows import inlined, on_class, on_function
from dynamo.symbolic.protocols.tables import dict_set
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.values.kinds import NONE, BuiltinValue, Const, DictValue, FunctionValue, ObjectValue, OpaqueValue, PartialValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and_": "&",
    "or_": "|",
    "xor": "^",
}
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "UNARY_NEGATIVE", "pos": "UNARY_POSITIVE", "inv": "UNARY_INVERT", "invert": "UNARY_INVERT"}


def _two(fn: Any, work: Callable[[Tracer, str, Value, Value], Value], symbol: str) -> None:
    @on_function(fn, "a b")
    def _row(tx: Tracer, a: Value, b: Value) -> Value:
        return work(tx, symbol, a, b)


def _one(fn: Any, op: str) -> None:
    @on_function(fn, "a")
    def _row(tx: Tracer, a: Value) -> Value:
        return unary(tx, op, a)


for _name, _symbol in _BINARY.items():
    _two(getattr(operator, _name), binary, _symbol)
    _two(getattr(operator, "i" + _name.rstrip("_")), binary, _symbol + "=")
for _name, _symbol in _COMPARE.items():
    _two(getattr(operator, _name), compare, _symbol)
for _name, _op in _UNARY.items():
    _one(getattr(operator, _name), _op)


@on_function(operator.concat, "a b")
def _concat(tx: Tracer, a: Value, b: Value) -> Value:
    for v in (a, b):
        if (issubclass(v.cls, dict) or tx.lookup(v.cls, "__getitem__") is MISSING) and not isinstance(v, OpaqueValue):
            if v is b and issubclass(a.cls, list | tuple | str | bytes | deque):
                break
            raise tx.throw(TypeError, f"'{c_name(a.cls)}' object can't be concatenated")
    if is_slot_of_sequence(tx, a.cls, "__add__"):
        found = concatenated(tx, "__add__", "__radd__", a, b, False)
        assert found is not None
        return found
    return binary(tx, "+", a, b)


@on_function(operator.iconcat, "a b")
def _iconcat(tx: Tracer, a: Value, b: Value) -> Value:
    return binary(tx, "+=", a, b)


@on_function(operator.not_, "a")
def _not(tx: Tracer, a: Value) -> Value:
    return bool_(not truth(tx, a))


@on_function(operator.truth, "a")
def _truth(tx: Tracer, a: Value) -> Value:
    return bool_(truth(tx, a))


@on_function(operator.is_, "a b")
def _is(tx: Tracer, a: Value, b: Value) -> Value:
    return bool_(is_(tx, a, b))


@on_function(operator.is_not, "a b")
def _is_not(tx: Tracer, a: Value, b: Value) -> Value:
    return bool_(not is_(tx, a, b))


@on_function(operator.contains, "a b")
def _contains(tx: Tracer, a: Value, b: Value) -> Value:
    return bool_(contains(tx, a, b))


@on_function(operator.getitem, "a b")
def _getitem(tx: Tracer, a: Value, b: Value) -> Value:
    return getitem(tx, a, b)


@on_function(operator.setitem, "a b c")
def _setitem(tx: Tracer, a: Value, b: Value, c: Value) -> Value:
    setitem(tx, a, b, c)
    return NONE


@on_function(operator.delitem, "a b")
def _delitem(tx: Tracer, a: Value, b: Value) -> Value:
    delitem(tx, a, b)
    return NONE


@on_function(operator.index, "a")
def _index(tx: Tracer, a: Value) -> Value:
    return Const(index_of(tx, a))


@on_function(operator.abs, "a")
def _abs(tx: Tracer, a: Value) -> Value:
    return tx_call(tx, BuiltinValue(abs), [a])


@on_function(operator.length_hint, "obj default?")
def _length_hint(tx: Tracer, obj: Value, default: Value | None) -> Value:
    if default is not None:
        size_of(tx, default)
    if tx.lookup(obj.cls, "__len__") is not MISSING:
        return len_(tx, obj)
    raise tx.break_("DD005", f"length hint of {obj.describe()}")


def _polyfill(fn: Any, twin: Any) -> None:
    def row(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if args and not is_iterable(args[0]):
            raise tx.throw(TypeError, NO_CONTAINER.format(c_name(args[0].cls)))
        return inlined(tx, twin, args, kwargs)

    FUNCTIONS.add(fn)(row)


_polyfill(operator.indexOf, polyfills.index_of)
_polyfill(operator.countOf, polyfills.count_of)


@on_function(operator.call, "obj *args **")
def _call(tx: Tracer, obj: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx_call(tx, obj, args, kwargs)


# Names that are the same function in C under an alias (`operator.__add__`, `_operator.add`).
for _name, _fn in vars(_operator).items():
    _twin = FUNCTIONS.get(getattr(operator, _name.strip("_"), None) or getattr(operator, _name.strip("_") + "_", None))
    if _twin is not None and FUNCTIONS.get(_fn) is None and callable(_fn) and not isinstance(_fn, type):
        FUNCTIONS.add(_fn)(_twin)


# ---- itemgetter, attrgetter, methodcaller -----------------------------------------------------------------


def _partial(twin: Any, args: list[Value]) -> PartialValue:
    """The callable as a partial of its polyfill."""
    return PartialValue(functools.partial, FunctionValue(twin), args, {})


def _items(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> PartialValue:
    return _partial(polyfills.get_items, [tx.make_tuple(args)])


def _attributes(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> PartialValue:
    return _partial(polyfills.get_attributes, [tx.make_tuple(args)])


def _method(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> PartialValue:
    d = DictValue()
    for k, v in kwargs.items():
        dict_set(tx, d, Const(k), v)
    return _partial(polyfills.call_method, [args[0], tx.make_tuple(args[1:]), d])


_TWINS: dict[Any, Callable[..., PartialValue]] = {
    operator.itemgetter: _items,
    operator.attrgetter: _attributes,
    operator.methodcaller: _method,
}


def _made(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The real one, where it is made of what is known."""
    known = tx.try_python(*args, *kwargs.values())
    if known is None or any(isinstance(v, ObjectValue) for v in (*args, *kwargs.values())):
        return _TWINS[cls](tx, args, kwargs)
    return BuiltinValue(cls(*known[: len(args)], **dict(zip(kwargs, known[len(args) :], strict=True))))


@on_class(operator.itemgetter, "item *items")
def _itemgetter(tx: Tracer, cls: type, item: Value, items: list[Value]) -> Value:
    return _made(tx, cls, [item, *items], {})


@on_class(operator.attrgetter, "name *names")
def _attrgetter(tx: Tracer, cls: type, name: Value, names: list[Value]) -> Value:
    if not all(issubclass(n.cls, str) for n in (name, *names)):
        raise tx.throw(TypeError, "attribute name must be a string")
    return _made(tx, cls, [name, *names], {})


@on_class(operator.methodcaller, "name *args **")
def _methodcaller(tx: Tracer, cls: type, name: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not issubclass(name.cls, str):
        raise tx.throw(TypeError, "method name must be a string")
    return _made(tx, cls, [name, *args], kwargs)


def _real_call(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Calling a real one: made again from what it was made with."""
    assert isinstance(self, BuiltinValue)
    made: tuple[Any, tuple[Any, ...]] = self.obj.__reduce__()
    maker, made_with = made
    keywords: dict[str, Any] = {}
    if isinstance(maker, functools.partial):  # a methodcaller with keywords
        keywords, made_with, maker = maker.keywords, (*maker.args, *made_with), maker.func
    twin = _TWINS[maker](tx, [tx.wrap(x, None) for x in made_with], {k: tx.wrap(x, None) for k, x in keywords.items()})
    return tx_call(tx, twin, args, kwargs)


for _cls in (operator.itemgetter, operator.attrgetter, operator.methodcaller):
    METHODS.add(_cls.__dict__["__call__"])(_real_call)
