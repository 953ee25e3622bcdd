"""Exception classes and what their instances can do."""

from __future__ import annotations

import builtins
import types
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import generic_setattr, instance_dict
from dynamo.symbolic.protocols.registry import METHODS, getset
from dynamo.symbolic.protocols.rows import new_row, on_method
from dynamo.symbolic.protocols.tables import dict_get, dict_set
from dynamo.symbolic.python.strings import exception_text, repr_
from dynamo.symbolic.values.kinds import FALSE, NONE, Const, ExceptionValue, ListValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def _all_builtin() -> list[type[BaseException]]:
    classes = [c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)]
    return list(dict.fromkeys(classes))  # OSError has aliases


# Keyword arguments that some exceptions keep as attributes.
_KEYWORDS = {"name", "obj", "path", "name_from"}


def _init(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not isinstance(self, ExceptionValue):
        raise tx.break_("DD005", f"exception constructor on {self.describe()}")
    if kwargs and not (set(kwargs) <= _KEYWORDS and issubclass(self.cls, ImportError | AttributeError | NameError)):
        raise tx.throw(TypeError, f"{self.cls.__name__}() takes no keyword arguments")
    _break_at_own_fields(tx, self.cls, args)
    tx.touch(self)
    self.set_args(list(args))
    for name, v in kwargs.items():
        self.slots[name] = v
    return NONE


def _break_at_own_fields(tx: Tracer, cls: type, args: list[Value]) -> None:
    """Errors of the system choose their class by the number and keep names apart; those of codecs check and keep five arguments."""
    if (issubclass(cls, OSError) and len(args) > 1) or issubclass(cls, UnicodeDecodeError | UnicodeEncodeError | UnicodeTranslateError):
        raise tx.break_("DD005", f"{cls.__name__}() with {len(args)} arguments")


def _new(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    _break_at_own_fields(tx, cls, args)
    return ExceptionValue(cls, list(args))


for _cls in _all_builtin():
    _raw = _cls.__dict__.get("__init__")
    if _raw is not None:
        METHODS.add(_raw)(_init)
    if not issubclass(_cls, BaseExceptionGroup):
        new_row(_cls, _new)


# ---- attributes -------------------------------------------------------------------------------------------


@getset(BaseException.args)
def _args(tx: Tracer, self: ExceptionValue) -> Value:
    return TupleValue(list(self.args))


def _default(raw: Any, default: Value) -> None:
    """An attribute that a raise or an assignment sets."""

    @getset(raw)
    def _row(tx: Tracer, self: ExceptionValue) -> Value:
        if self.obj is not None and self.source is not None:
            return tx.wrap(raw.__get__(self.obj), self.source.attr(raw.__name__))
        return default


@getset(BaseException.__traceback__)
def _traceback(tx: Tracer, self: ExceptionValue) -> Value:
    if self.traceback is None and self.obj is not None and self.source is not None:
        return tx.wrap(self.obj.__traceback__, self.source.attr("__traceback__"))
    return self.traceback or NONE


for _name in ("__cause__", "__context__"):
    _default(BaseException.__dict__[_name], NONE)
_default(BaseException.__dict__["__suppress_context__"], FALSE)
for _owner, _names in ((ImportError, ("name", "path", "name_from")), (AttributeError, ("name", "obj")), (NameError, ("name",))):
    for _name in _names:
        if _name in _owner.__dict__:
            _default(_owner.__dict__[_name], NONE)


def _argument(raw: Any, index: int) -> None:
    """An attribute that is one of the arguments."""

    @getset(raw)
    def _row(tx: Tracer, self: ExceptionValue) -> Value:
        if self.obj is not None and self.source is not None:
            return tx.wrap(raw.__get__(self.obj), self.source.attr(raw.__name__))
        return self.args[index] if index < len(self.args) else NONE


_argument(StopIteration.__dict__["value"], 0)
_argument(SystemExit.__dict__["code"], 0)
_argument(ImportError.__dict__["msg"], 0)
for _name in ("errno", "strerror", "filename", "filename2"):  # of one argument none is told
    _default(OSError.__dict__[_name], NONE)


# ---- methods ----------------------------------------------------------------------------------------------


@on_method(BaseException, "with_traceback", "tb", ExceptionValue)
def _with_traceback(tx: Tracer, self: ExceptionValue, tb: Value) -> Value:
    if tb is NONE or (isinstance(tb, Const) and tb.value is None):
        self.traceback = None
    elif not issubclass(tb.cls, types.TracebackType):
        raise tx.throw(TypeError, "__traceback__ must be a traceback or None")
    return self


@on_method(BaseException, "add_note", "note", ExceptionValue)
def _add_note(tx: Tracer, self: ExceptionValue, note: Value) -> Value:
    if not issubclass(note.cls, str):
        raise tx.throw(TypeError, f"note must be a str, not '{c_name(note.cls)}'")
    d = instance_dict(tx, self)
    assert d is not None
    notes = dict_get(tx, d, Const("__notes__"))
    if not isinstance(notes, ListValue):
        notes = tx.make_list([])
        dict_set(tx, d, Const("__notes__"), notes)
    tx.touch(notes)
    notes.items.append(note)
    return NONE


@on_method((BaseException, KeyError), "__str__", "", ExceptionValue)
def _str(tx: Tracer, self: ExceptionValue) -> Value:
    return Const(exception_text(tx, self))


@on_method(BaseException, "__repr__", "", ExceptionValue)
def _repr(tx: Tracer, self: ExceptionValue) -> Value:
    return Const(f"{self.cls.__name__}({', '.join(repr_(tx, a) for a in self.args)})")


@on_method(BaseException, "__setattr__", "name value", ExceptionValue)
def _setattr(tx: Tracer, self: ExceptionValue, name: Value, value: Value) -> Value:
    generic_setattr(tx, self, tx.as_python(name), value)
    return NONE
