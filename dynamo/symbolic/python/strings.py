"""Text of values: str(), repr(), format(), f-strings, str.format, %-formatting, join."""

from __future__ import annotations

import dataclasses
import reprlib
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.inspection import HEAP, c_name, has_flag, is_library
from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import MISSING, getattr_, tx_call
from dynamo.symbolic.protocols.calls import fold
from dynamo.symbolic.protocols.constants import IMMUTABLE_MODULES
from dynamo.symbolic.protocols.containers import index_of, is_iterable, ordered
from dynamo.symbolic.protocols.iteration import unpack_iterable
from dynamo.symbolic.protocols.operators import getitem, special
from dynamo.symbolic.protocols.registry import CODES, nested_code
from dynamo.symbolic.protocols.rows import on_class, on_function, on_method
from dynamo.symbolic.protocols.tables import dict_items
from dynamo.symbolic.python.number_rows import to_float
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    ClassValue,
    Const,
    DictValue,
    DictViewValue,
    ExceptionGroupValue,
    ExceptionValue,
    FunctionValue,
    ListValue,
    ModuleValue,
    ObjectValue,
    OpaqueValue,
    PartialValue,
    PropertyValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_REPRS = (
    list.__repr__,
    tuple.__repr__,
    dict.__repr__,
    set.__repr__,
    frozenset.__repr__,
    OrderedDict.__repr__,
    defaultdict.__repr__,
    deque.__repr__,
    types.MappingProxyType.__repr__,
)


def format_value(tx: Tracer, v: Value, conversion: str, spec: Value) -> Value:
    """An f-string field: convert, then format."""
    if conversion:
        v = Const({"str": str_, "repr": repr_, "ascii": ascii_}[conversion](tx, v))
    return Const(format_(tx, v, text_of(tx, spec)))


def text_of(tx: Tracer, v: Value) -> str:
    if isinstance(v, Const) and isinstance(v.value, str):
        return v.value
    try:
        known = tx.as_python(v)
    except NotConstant as e:
        raise tx.break_("DD005", f"text of {v.describe()}") from e
    if not isinstance(known, str):
        raise tx.throw(TypeError, f"expected str instance, {c_name(v.cls)} found")
    return known


def _text_from(tx: Tracer, v: Value, complaint: str) -> str:
    if not issubclass(v.cls, str):
        raise tx.throw(TypeError, complaint.format(v.cls.__name__))
    return text_of(tx, v)


def format_(tx: Tracer, v: Value, spec: str) -> str:
    """format(v, spec)."""
    if isinstance(v, Const):
        return _folded(tx, format, v, Const(spec))
    if isinstance(v, TensorValue):
        raise tx.break_("DD003", f"text of {v.describe()}")
    raw = tx.lookup(v.cls, "__format__")
    if raw is object.__format__:
        if spec:
            raise tx.throw(TypeError, f"unsupported format string passed to {c_name(v.cls)}.__format__")
        return str_(tx, v)
    if type(raw) is types.FunctionType:
        return _text_from(tx, tx_call(tx, tx.wrap(raw, None), [v, Const(spec)]), "__format__ must return a str, not {}")
    return _folded(tx, format, v, Const(spec))


# Values whose text is being made: meeting one again inside itself gives an ellipsis instead.
_running: list[Value] = []
_AGAIN = {ListValue: "[...]", DictValue: "{...}", TupleValue: "(...)"}


def once(v: Value, make: Callable[[], str], again: str) -> str:
    if any(x is v for x in _running):
        return again
    _running.append(v)
    try:
        return make()
    finally:
        _running.pop()


def _repr_wrapper(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The check for recursion of reprlib and dataclasses, which asks for addresses and threads."""
    if fn.obj is None or len(args) != 1:
        return None
    cells = dict(zip(fn.code.co_freevars, (c.cell_contents for c in fn.obj.__closure__ or ()), strict=True))
    user = cells["user_function"]
    made = once(
        args[0], lambda: text_of(tx, tx_call(tx, tx.wrap(user, const_source(user, "__repr__")), args)), cells.get("fillvalue", "...")
    )
    return Const(made)


CODES.add(nested_code(reprlib.recursive_repr.__code__, "decorating_function", "wrapper"))(_repr_wrapper)
if type(getattr(dataclasses, "_recursive_repr", None)) is types.FunctionType:
    CODES.add(nested_code(dataclasses._recursive_repr.__code__, "wrapper"))(_repr_wrapper)  # type: ignore[attr-defined]  # until 3.12


def _folded(tx: Tracer, fn: Any, *args: Value) -> str:
    if isinstance(args[0], OpaqueValue) and args[0].cls.__module__ not in IMMUTABLE_MODULES:
        raise tx.break_("DD005", f"text of {args[0].describe()}")
    result = fold(tx, fn, list(args), {})
    if result is None:
        raise tx.break_("DD005", f"text of {args[0].describe()}")
    return text_of(tx, result)


def str_(tx: Tracer, v: Value) -> str:
    """str(v)."""
    if isinstance(v, Const):
        return v.value if type(v.value) is str else _folded(tx, str, v)
    if isinstance(v, TensorValue):
        raise tx.break_("DD003", f"text of {v.describe()}")
    if isinstance(v, ModuleValue):
        return _folded(tx, str, v)
    if isinstance(v, ClassValue):
        return _class_text(tx, v, "__str__")
    raw = tx.lookup(v.cls, "__str__")
    if type(raw) is types.FunctionType:
        found = special(tx, v, "__str__")
        assert found is not None
        return _text_from(tx, found, "__str__ returned non-string (type {})")
    if isinstance(v, ExceptionValue):
        return exception_text(tx, v)
    if raw is object.__str__:
        return repr_(tx, v)
    if raw is not MISSING:
        return _folded(tx, str, v)
    return repr_(tx, v)


def _class_text(tx: Tracer, v: ClassValue, name: str) -> str:
    """A metaclass of the program may have a say, and its classes may get other names."""
    raw = tx.lookup(type(v.obj), name)
    if raw is object.__str__:
        return _class_text(tx, v, "__repr__")
    if type(raw) is types.FunctionType and not is_library(str(raw.__module__)):
        return _text_from(tx, tx_call(tx, tx.wrap(raw, None), [v]), f"{name} returned non-string (type {{}})")
    text = _folded(tx, repr, v)
    if has_flag(v.obj, HEAP) and not is_library(v.obj.__module__):
        tx.guard(const_source(v.obj, v.obj.__name__).step("call", type.__repr__), "eq", type.__repr__(v.obj))
    return text


def exception_text(tx: Tracer, v: ExceptionValue) -> str:
    """str() of an exception: nothing, its one argument, or the tuple of its arguments."""
    if isinstance(v, ExceptionGroupValue):
        n = len(v.members.items)
        return f"{str_(tx, v.message)} ({n} sub-exception{'s' if n > 1 else ''})"
    if tx.lookup(v.cls, "__str__") is KeyError.__str__ and len(v.args) == 1:
        return repr_(tx, v.args[0])
    if v.obj is not None and tx.lookup(v.cls, "__str__") is OSError.__str__:
        return _system_error_text(tx, v)
    if tx.lookup(v.cls, "__str__") not in (BaseException.__str__, KeyError.__str__, ImportError.__str__, MISSING) and len(v.args) > 1:
        if v.obj is not None:
            raise tx.break_("DD005", f"text of {v.describe()}")
        return _folded(tx, lambda *args: str(v.cls(*args)), *v.args)
    if len(v.args) == 1:
        return str_(tx, v.args[0])
    return repr_(tx, TupleValue(list(v.args))) if v.args else ""


def _is_none(v: Value) -> bool:
    return isinstance(v, Const) and v.value is None


def _system_error_text(tx: Tracer, v: ExceptionValue) -> str:
    """As `OSError_str` of CPython: of the fields, which the arguments need not tell, or which have been assigned since."""
    number, text, *names = (getattr_(tx, v, name) for name in ("errno", "strerror", "filename", "filename2"))
    given = [repr_(tx, name) for name in names if not _is_none(name)]
    if given or not (_is_none(number) or _is_none(text)):
        return f"[Errno {str_(tx, number)}] {str_(tx, text)}{': ' if given else ''}{' -> '.join(given)}"
    return str_(tx, v.args[0]) if len(v.args) == 1 else repr_(tx, TupleValue(list(v.args))) if v.args else ""


def repr_(tx: Tracer, v: Value) -> str:
    """repr(v)."""
    if isinstance(v, Const | ModuleValue):
        return _folded(tx, repr, v)
    if isinstance(v, ClassValue):
        return _class_text(tx, v, "__repr__")
    if isinstance(v, TensorValue):
        raise tx.break_("DD003", f"text of {v.describe()}")
    raw = tx.lookup(v.cls, "__repr__")
    if type(raw) is types.FunctionType:
        return _text_from(tx, tx_call(tx, tx.wrap(raw, None), [v]), "__repr__ returned non-string (type {})")
    if isinstance(v, ExceptionValue):
        inside = ", ".join(repr_(tx, a) for a in v.args)
        return f"{v.cls.__name__}({inside})"
    if isinstance(v, TupleValue | ListValue | DictValue | SetValue) and raw in _REPRS:
        return once(v, lambda: _container_repr(tx, v), _AGAIN.get(type(v), "..."))
    if isinstance(v, SliceValue):
        return f"slice({', '.join(repr_(tx, p) for p in v.parts)})"
    if isinstance(v, DictViewValue):
        return f"{v.cls.__name__}({repr_(tx, tx.make_list(unpack_iterable(tx, v)))})"
    if raw is object.__repr__ or isinstance(v, FunctionValue | BuiltinValue | PropertyValue | PartialValue | ObjectValue):
        return _identity_repr(tx, v, raw)
    raise tx.break_("DD005", f"text of {v.describe()}")


def _identity_repr(tx: Tracer, v: Value, raw: Any) -> str:
    """A text with an address in it (or of a C object): known for objects whose identity is guarded."""
    obj = getattr(v, "obj", None)
    if obj is None:
        raise tx.break_("DD005", f"text of {v.describe()}")
    if v.source is not None and v.source.kind != "const":
        tx.guard(v.source, "is", obj)
    return repr(obj) if raw is not object.__repr__ else object.__repr__(obj)


def _container_repr(tx: Tracer, v: TupleValue | ListValue | DictValue | SetValue) -> str:
    name = v.cls.__name__
    if isinstance(v, TupleValue):
        if hasattr(v.cls, "n_fields"):
            return _folded(tx, repr, v)
        parts = [repr_(tx, x) for x in tx.items(v.items)]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(v, ListValue):
        inside = f"[{', '.join(repr_(tx, x) for x in tx.items(v.items))}]"
        if issubclass(v.cls, list):
            return inside
        return f"{name}({inside}, maxlen={v.maxlen})" if v.maxlen is not None else f"{name}({inside})"
    if isinstance(v, SetValue):
        inside = ", ".join(repr_(tx, x) for x in ordered(tx, v))
        return f"{{{inside}}}" if v.cls is set and inside else f"{name}({{{inside}}})" if inside else f"{name}()"
    pairs = dict_items(tx, v)
    if issubclass(v.cls, OrderedDict):
        return _ordered_repr(tx, name, pairs)
    inside = f"{{{', '.join(f'{repr_(tx, k)}: {repr_(tx, x)}' for k, x in pairs)}}}"
    if issubclass(v.cls, defaultdict):
        factory = repr_(tx, v.default_factory) if v.default_factory is not None else "None"
        return f"{name}({factory}, {inside})"
    return f"mappingproxy({inside})" if v.cls is types.MappingProxyType else inside


def _ordered_repr(tx: Tracer, name: str, pairs: list[tuple[Value, Value]]) -> str:
    if not pairs:
        return f"{name}()"
    if isinstance(repr(OrderedDict(a=1)), str) and repr(OrderedDict(a=1)).startswith("OrderedDict({"):  # since 3.12
        return f"{name}({{{', '.join(f'{repr_(tx, k)}: {repr_(tx, x)}' for k, x in pairs)}}})"
    return f"{name}([{', '.join(f'({repr_(tx, k)}, {repr_(tx, x)})' for k, x in pairs)}])"


def ascii_(tx: Tracer, v: Value) -> str:
    return repr_(tx, v).encode("ascii", "backslashreplace").decode("ascii")


@on_function(repr, "object")
def _repr(tx: Tracer, v: Value) -> Value:
    return Const(repr_(tx, v))


@on_function(ascii, "object")
def _ascii(tx: Tracer, v: Value) -> Value:
    return Const(ascii_(tx, v))


@on_function(format, "value spec?")
def _format(tx: Tracer, v: Value, spec: Value | None) -> Value:
    if spec is not None and not issubclass(spec.cls, str):
        raise tx.throw(TypeError, f"format() argument 2 must be str, not {'None' if spec.cls is type(None) else c_name(spec.cls)}")
    return Const(format_(tx, v, text_of(tx, spec) if spec is not None else ""))


@on_class(str, "| object? encoding? errors?")
def _make_str(tx: Tracer, cls: type, v: Value | None, encoding: Value | None, errors: Value | None) -> Value:
    if cls is not str:
        raise tx.break_("DD005", f"{cls.__name__}()")
    if v is None:
        return Const("")
    extra = [x for x in (encoding, errors) if x is not None]
    if extra:
        return Const(_folded(tx, str, v, *extra))
    return Const(str_(tx, v))


# ---- str methods whose arguments may be more than constants ------------------------------------------------


@on_method(str, "join", "iterable")
def _join(tx: Tracer, self: Value, iterable: Value) -> Value:
    parts = []
    if not is_iterable(iterable):
        raise tx.throw(TypeError, "can only join an iterable")
    for i, x in enumerate(unpack_iterable(tx, iterable)):
        if not issubclass(x.cls, str):
            raise tx.throw(TypeError, f"sequence item {i}: expected str instance, {c_name(x.cls)} found")
        parts.append(text_of(tx, x))
    return Const(text_of(tx, self).join(parts))


@on_method(str, "format", "*args **")
def _str_format(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    template = text_of(tx, self)
    return _filled(tx, lambda: template.format(*(_Replacement(tx, v) for v in args), **{k: _Replacement(tx, v) for k, v in kwargs.items()}))


@on_method(str, "format_map", "mapping")
def _format_map(tx: Tracer, self: Value, mapping: Value) -> Value:
    return _filled(tx, lambda: text_of(tx, self).format_map(_Replacement(tx, mapping)))


def _filled(tx: Tracer, fill: Callable[[], str]) -> Const:
    """The text that CPython makes of a template; what it refuses, the program is told."""
    try:
        return Const(fill())
    except (TypeError, ValueError, KeyError, IndexError, OverflowError) as e:
        raise tx.throw(type(e), *e.args) from e


class _Replacement:
    """A value in a template of `str.format`: its attributes, items and text are asked for only where the template does."""

    def __init__(self, tx: Tracer, v: Value) -> None:
        object.__setattr__(self, "held", (tx, v))

    def __getattribute__(self, name: str) -> _Replacement:
        tx, v = _held(self)
        return _Replacement(tx, getattr_(tx, v, name))

    def __getitem__(self, key: int | str) -> _Replacement:
        tx, v = _held(self)
        return _Replacement(tx, getitem(tx, v, Const(key)))

    def __format__(self, spec: str) -> str:
        return format_(*_held(self), spec)

    def __str__(self) -> str:
        return str_(*_held(self))

    def __repr__(self) -> str:
        return repr_(*_held(self))


def _held(replacement: _Replacement) -> tuple[Tracer, Value]:
    found: tuple[Tracer, Value] = object.__getattribute__(replacement, "held")
    return found


@on_method(str, "__mod__", "value")
def _percent(tx: Tracer, self: Value, value: Value) -> Value:
    known = tx.try_python(value)
    if known is not None and not isinstance(value, ObjectValue | ClassValue):
        return Const(_folded(tx, str.__mod__, self, value))
    if isinstance(value, TupleValue) and issubclass(value.cls, tuple):
        arguments: Any = tuple(_argument(tx, x) for x in tx.items(value.items))
    elif issubclass(value.cls, str) or tx.lookup(value.cls, "__getitem__") in (MISSING, deque.__getitem__):
        arguments = (_argument(tx, value),)
    else:  # what has items counts as a mapping, which need not be used up
        arguments = _argument(tx, value, _Mapping)
    return _filled(tx, lambda: text_of(tx, self) % arguments)


def _argument(tx: Tracer, v: Value, *more: type) -> Any:
    """What stands for a value: with the methods by which C code makes numbers of it where it has them, and its name in errors."""
    if isinstance(v, Const):
        return v.value
    kinds = tuple(kind for name, kind in _NUMBERS.items() if tx.lookup(v.cls, name) is not MISSING)
    return type(c_name(v.cls), (*more, *kinds, _Field), {})(tx, v)


class _Field:
    """A value under %-formatting: text is made only if the template asks for it."""

    def __init__(self, tx: Tracer, v: Value) -> None:
        self.tx = tx
        self.v = v

    def __str__(self) -> str:
        return str_(self.tx, self.v)

    def __repr__(self) -> str:
        return repr_(self.tx, self.v)


class _Indexed(_Field):
    def __index__(self) -> int:
        return index_of(self.tx, self.v)


class _Whole(_Field):
    def __int__(self) -> int:
        return int(self.tx.as_python(tx_call(self.tx, BuiltinValue(int), [self.v])))


class _Real(_Field):
    def __float__(self) -> float:
        return float(to_float(self.tx, self.v))


_NUMBERS = {"__index__": _Indexed, "__int__": _Whole, "__float__": _Real}


class _Mapping(_Field):
    """One that has items, which `%(name)s` asks for."""

    def __getitem__(self, key: str) -> Any:
        return _argument(self.tx, getitem(self.tx, self.v, Const(key)))
