"""Standard library functions that act on the process (time, random, logging), look at types, or copy values."""

from __future__ import annotations

import _random
import bisect
import collections
import copy
import datetime as dt
import decimal
import enum
import heapq
import inspect
import json
import logging
import os
import posix
import random
import re
import sys
import time
import types
import typing
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo import _C
from dynamo.inspection import c_name
from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import getattr_, instance_dict, tx_call
from dynamo.symbolic.protocols.calls import fold, inline
from dynamo.symbolic.protocols.containers import bool_, pairs_of
from dynamo.symbolic.protocols.operators import compare, special
from dynamo.symbolic.protocols.registry import FUNCTIONS, METHODS, pure
from dynamo.symbolic.protocols.rows import inlined, on_class, on_function, on_method
from dynamo.symbolic.protocols.tables import dict_items, dict_set
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.python.copying import deep, shallow
from dynamo.symbolic.python.strings import repr_
from dynamo.symbolic.values.kinds import (
    NONE,
    NOT_IMPLEMENTED,
    BuiltinValue,
    ClassValue,
    Const,
    FunctionValue,
    GeneratorValue,
    MethodValue,
    ModuleValue,
    ObjectValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def _broken(id: str, *fns: Any) -> None:
    for fn in fns:

        def row(tx: Tracer, args: Args, kwargs: Kwargs, name: str = getattr(fn, "__qualname__", str(fn))) -> Value:
            raise tx.break_(id, name)

        FUNCTIONS.add(fn)(row)


def _broken_methods(id: str, owner: type, *names: str) -> None:
    for name in names:

        def row(tx: Tracer, self: Value, args: Args, kwargs: Kwargs, what: str = f"{owner.__name__}.{name}") -> Value:
            raise tx.break_(id, what)

        raw = owner.__dict__.get(name)
        if raw is not None:
            METHODS.add(raw)(row)


# ---- the clock and chance ---------------------------------------------------------------------------------

_CLOCKS = (
    *("time", "perf_counter", "monotonic", "process_time", "thread_time", "sleep"),
    *("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns"),
)
_broken("DD005", *(getattr(time, n) for n in _CLOCKS))
_broken_methods("DD023", _random.Random, "random", "seed", "getrandbits", "getstate", "setstate")
_broken("DD023", random.Random.seed, random.Random.choice, random.Random.shuffle)


# ---- logging ----------------------------------------------------------------------------------------------


_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
    "log": None,
}


def _logging_row(name: str, level: int | None) -> None:
    fn = getattr(logging.Logger, name)

    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        """Nothing when the logger is silent at this level (which is guarded), else the work of Python."""
        wanted = level if level is not None else tx.as_python(args[1])
        real = getattr(args[0], "obj", None)
        if not isinstance(real, logging.Logger) or real.isEnabledFor(wanted):
            raise tx.break_("DD004", f"logging.{name}")
        _guard_level(tx, args[0], real)
        return NONE

    FUNCTIONS.add(fn)(row)


def _guard_level(tx: Tracer, v: Value, real: logging.Logger) -> None:
    """What decides: is the logger off, or all of them up to a level; its own level, or that of the nearest parent which has one."""
    source, at = v.source, real
    if source is not None:
        tx.guard(source.attr("disabled"), "eq", real.disabled)
        tx.guard(const_source(real.manager, "logging.Logger.manager").attr("_disable"), "eq", real.manager.disable)
    while source is not None:
        tx.guard(source.attr("level"), "eq", at.level)
        if at.level or at.parent is None:
            return
        source, at = source.attr("parent"), at.parent


for _name, _level in _LEVELS.items():
    _logging_row(_name, _level)
_broken("DD004", *(getattr(logging, n) for n in (*_LEVELS, "basicConfig")))


@on_function(logging.Logger.isEnabledFor, "self level")
def _is_enabled(tx: Tracer, self: Value, level: Value) -> Value:
    real = getattr(self, "obj", None)
    if not isinstance(real, logging.Logger):
        raise tx.break_("DD004", "Logger.isEnabledFor")
    _guard_level(tx, self, real)
    return bool_(real.isEnabledFor(tx.as_python(level)))


# ---- looking at functions and types -----------------------------------------------------------------------


def _fold_known(*fns: Any) -> None:
    """Python functions answered at once when all arguments are known objects."""
    for fn in dict.fromkeys(fns):

        def row(tx: Tracer, args: Args, kwargs: Kwargs, fn: Any = fn) -> Value:
            folded = fold(tx, fn, args, kwargs)
            if folded is not None:
                return folded
            return inline(tx, FunctionValue(fn), args, kwargs)

        FUNCTIONS.add(fn)(row)


_fold_known(
    json.dumps,
    json.loads,
    inspect.getfullargspec,
    inspect.getmro,
    inspect.cleandoc,
    inspect.getdoc,
    typing.get_origin,
    typing.get_args,
    typing.get_type_hints,
    re.compile,
    re.match,
    re.fullmatch,
    re.search,
    re.sub,
    re.split,
    re.findall,
    re.escape,
)

_KINDS: dict[Any, Callable[[Value], bool]] = {
    inspect.isfunction: lambda v: isinstance(v, FunctionValue) or v.cls is _C.Compiled,
    inspect.ismethod: lambda v: isinstance(v, MethodValue) and not isinstance(v.fn, BuiltinValue),
    inspect.isbuiltin: lambda v: issubclass(v.cls, types.BuiltinFunctionType),
    inspect.isclass: lambda v: isinstance(v, ClassValue),
    inspect.ismodule: lambda v: isinstance(v, ModuleValue),
    inspect.isgenerator: lambda v: isinstance(v, GeneratorValue),
}


def _kind_row(fn: Any, test: Callable[[Value], bool]) -> None:
    @on_function(fn, "| object")
    def _row(tx: Tracer, v: Value) -> Value:
        return bool_(test(v))


for _fn, _test in _KINDS.items():
    _kind_row(_fn, _test)


@on_function(typing.cast, "| typ val")
def _cast(tx: Tracer, typ: Value, val: Value) -> Value:
    return val


pure(*(f for f in vars(re.Pattern).values() if callable(f)), *(f for f in vars(re.Match).values() if callable(f)))


# ---- values of C types ------------------------------------------------------------------------------------


@on_method(types.GenericAlias, "__call__", "*args **")
def _call_alias(tx: Tracer, self: Value, args: Args, kwargs: Kwargs) -> Value:
    """`list[int](...)`: the origin, called; its instance remembers the alias when it can."""
    alias = tx.as_python(self)
    made = tx_call(tx, tx.wrap(alias.__origin__, None), args, kwargs)
    d = instance_dict(tx, made)
    if d is not None:
        dict_set(tx, d, Const("__orig_class__"), self)
    return made


def _value_type(cls: type) -> None:
    """An immutable C type: made from known values and computed at once."""

    @on_class(cls, "| *args **")
    def _make(tx: Tracer, made: type, args: Args, kwargs: Kwargs) -> Value:
        folded = fold(tx, made, args, kwargs)
        if folded is None:
            raise tx.break_("DD005", f"{made.__name__}()")
        return folded

    pure(*(f for n, f in vars(cls).items() if isinstance(f, types.WrapperDescriptorType | types.MethodDescriptorType)))


for _cls in (decimal.Decimal, dt.timedelta, dt.date, dt.datetime, dt.time, dt.timezone):
    _value_type(_cls)


# ---- enum -------------------------------------------------------------------------------------------------


def _enum_rows() -> None:
    """Methods of enum's own classes, computed on the real members."""
    classes = (enum.Enum, enum.Flag, enum.IntFlag, enum.IntEnum, getattr(enum, "ReprEnum", enum.Enum))
    methods = [(name, raw) for cls in classes for name, raw in vars(cls).items() if type(raw) is types.FunctionType]
    _fold_known(*(raw for name, raw in methods if name not in ("__new__", "__init__", "_generate_next_value_", "_missing_")))


_enum_rows()


# ---- the exception being handled --------------------------------------------------------------------------


def handled_exception(tx: Tracer) -> Value:
    return next((f.handled[-1] for f in reversed(tx.frames) if f.handled), NONE)


@on_function(sys.exc_info)
def _exc_info(tx: Tracer) -> Value:
    exc = handled_exception(tx)
    return tx.make_tuple([NONE, NONE, NONE] if exc is NONE else [tx.wrap(exc.cls, None), exc, getattr_(tx, exc, "__traceback__")])


@on_function(sys.exception)
def _exception(tx: Tracer) -> Value:
    return handled_exception(tx)


pure(sys.intern)
pure(*(getattr(posix, n) for n in ("_path_normpath", "_path_splitroot_ex") if hasattr(posix, n)))


# ---- weak references --------------------------------------------------------------------------------------


@on_class(weakref.ref, "object callback?")
def _make_ref(tx: Tracer, cls: type, v: Value, callback: Value | None) -> Value:
    raise tx.break_("DD005", "weakref.ref()")


@on_method(weakref.ref, "__call__")
def _call_ref(tx: Tracer, self: Value) -> Value:
    """What the reference points to, guarded through the call."""
    obj = getattr(self, "obj", None)
    if obj is None or self.source is None:
        raise tx.break_("DD005", self.describe())
    return tx.wrap(weakref.ref.__call__(obj), self.source.step("call", weakref.ref.__call__))


# ---- copies -----------------------------------------------------------------------------------------------


@on_function(copy.copy, "| x")
def _copy(tx: Tracer, x: Value) -> Value:
    return shallow(tx, x)


@on_function(copy.deepcopy, "| x memo?")
def _deepcopy(tx: Tracer, x: Value, memo: Value | None) -> Value:
    return deep(tx, x, {})


# ---- bisect -----------------------------------------------------------------------------------------------


def _bisect_row(fn: Any, left: bool, insert: bool) -> None:
    @on_function(fn, "| a x lo? hi? * key?")
    def _row(tx: Tracer, a: Value, x: Value, lo: Value | None, hi: Value | None, key: Value | None) -> Value:
        args = [a, x, bool_(left), lo or Const(0), hi or NONE, key or NONE, bool_(insert)]
        return inlined(tx, polyfills.insort, args)


for _side, _is_left in (("left", True), ("right", False)):
    _bisect_row(getattr(bisect, f"bisect_{_side}"), _is_left, False)
    _bisect_row(getattr(bisect, f"insort_{_side}"), _is_left, True)


# ---- heaps ------------------------------------------------------------------------------------------------


def _polyfill(fn: Any, twin: Any) -> None:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return inlined(tx, twin, args, kwargs)

    FUNCTIONS.add(fn)(row)


for _name in ("heappush", "heappop", "heapreplace", "heappushpop", "heapify"):
    _polyfill(getattr(heapq, _name), getattr(polyfills, _name))


@on_function(os.fspath, "path")
def _fspath(tx: Tracer, path: Value) -> Value:
    found = path if issubclass(path.cls, str | bytes) else special(tx, path, "__fspath__")
    if found is None:
        raise tx.throw(TypeError, f"expected str, bytes or os.PathLike object, not {c_name(path.cls)}")
    return found


# ---- namespaces -------------------------------------------------------------------------------------------


@on_class(types.SimpleNamespace, "mapping? **")
def _make_namespace(tx: Tracer, cls: type, mapping: Value | None, kwargs: Kwargs) -> Value:
    v = ObjectValue(cls)
    _init_namespace(tx, v, mapping, kwargs)
    return v


@on_method(types.SimpleNamespace, "__init__", "mapping? **", ObjectValue)
def _init_namespace(tx: Tracer, self: ObjectValue, mapping: Value | None, kwargs: Kwargs) -> Value:
    d = instance_dict(tx, self)
    assert d is not None
    for k, v in pairs_of(tx, mapping) if mapping is not None else []:
        dict_set(tx, d, k, v)
    for name, v in kwargs.items():
        dict_set(tx, d, Const(name), v)
    return NONE


@on_method(types.SimpleNamespace, "__repr__", "", ObjectValue)
def _namespace_repr(tx: Tracer, self: ObjectValue) -> Value:
    return Const(f"{'namespace' if self.cls is types.SimpleNamespace else self.cls.__name__}({', '.join(_fields(tx, self))})")


def _fields(tx: Tracer, self: ObjectValue) -> list[str]:
    d = instance_dict(tx, self)
    assert d is not None
    return [f"{tx.as_python(k)}={repr_(tx, v)}" for k, v in dict_items(tx, d)]


@on_method(types.SimpleNamespace, "__eq__", "value", ObjectValue)
def _namespace_eq(tx: Tracer, self: ObjectValue, value: Value) -> Value:
    if not isinstance(value, ObjectValue) or not issubclass(value.cls, types.SimpleNamespace):
        return NOT_IMPLEMENTED
    mine, other = instance_dict(tx, self), instance_dict(tx, value)
    assert mine is not None
    assert other is not None
    return compare(tx, "==", mine, other)


# ---- named tuples made while tracing ----------------------------------------------------------------------


_NAMEDTUPLE: Any = getattr(collections, "namedtuple")  # noqa: B009  # the row is for the function itself


@on_function(_NAMEDTUPLE, "| typename field_names * rename? defaults? module?")
def _namedtuple(tx: Tracer, *args: Value | None) -> Value:
    raise tx.break_("DD019", "namedtuple()")
