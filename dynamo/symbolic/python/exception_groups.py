"""Exception groups: making them, taking them apart, and the two instructions of `except*`.

What CPython writes in C (Objects/exceptions.c) is `polyfills.split_group` and `polyfills.project_group` here, because `derive` and
predicates are Python. An exception that is raised again in an `except*` clause as it came is told from a new one by its traceback;
tracebacks are not modelled, so a group value carries a token in place of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo.symbolic.protocols.attributes import getattr_, tx_call
from dynamo.symbolic.protocols.registry import NEW, getset
from dynamo.symbolic.protocols.rows import inlined, misfit, new_row, on_method
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.python.strings import exception_text
from dynamo.symbolic.values.kinds import (
    NONE,
    Const,
    DictValue,
    ExceptionGroupValue,
    ExceptionValue,
    GeneratorValue,
    IterValue,
    ListValue,
    SetValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_NO_SEQUENCE = DictValue | SetValue | GeneratorValue | IterValue


def make_group(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> ExceptionGroupValue:
    """BaseExceptionGroup.__new__. Class and complaints come from a real group of placeholders."""
    if kwargs or len(args) != 2:
        raise misfit(tx, cls, args, kwargs)
    message, members = args
    items: list[Value] = []
    stand_ins: Any
    if isinstance(members, TupleValue | ListValue):
        items = tx.items(members.items)
        stand_ins = [_stand_in(v) for v in items]
    elif isinstance(members, Const):
        stand_ins = members.value
    elif isinstance(members, _NO_SEQUENCE):
        stand_ins = object()
    else:
        raise tx.break_("DD005", f"{cls.__name__}() of {members.describe()}")
    try:
        new: Any = BaseExceptionGroup.__new__
        twin = new(cls, message.value if isinstance(message, Const) else message, stand_ins)
    except (TypeError, ValueError) as e:
        if not isinstance(message, Const):
            raise tx.break_("DD005", f"{cls.__name__}() with {message.describe()} as text") from e
        raise tx.throw(type(e), *e.args) from e
    return ExceptionGroupValue(type(twin), list(args), message, TupleValue(list(items)))


def _stand_in(v: Value) -> object:
    if not isinstance(v, ExceptionValue):
        return v
    return Exception() if issubclass(v.cls, Exception) else BaseException()


new_row(BaseExceptionGroup, make_group)
NEW.add(BaseExceptionGroup)(make_group)


@getset(BaseExceptionGroup.message)
def _message(tx: Tracer, self: ExceptionGroupValue) -> Value:
    return self.message


@getset(BaseExceptionGroup.exceptions)
def _exceptions(tx: Tracer, self: ExceptionGroupValue) -> Value:
    return self.members


@on_method(BaseExceptionGroup, "__str__", "", ExceptionGroupValue)
def _str(tx: Tracer, self: ExceptionGroupValue) -> Value:
    return Const(exception_text(tx, self))


@on_method(BaseExceptionGroup, "derive", "excs", ExceptionGroupValue)
def _derive(tx: Tracer, self: ExceptionGroupValue, members: Value) -> Value:
    return tx_call(tx, tx.wrap(BaseExceptionGroup, None), [self.message, members])


@on_method(BaseExceptionGroup, "split", "matcher", ExceptionGroupValue)
def _split(tx: Tracer, self: ExceptionGroupValue, matcher: Value) -> Value:
    return _parts(tx, self, matcher, True)


@on_method(BaseExceptionGroup, "subgroup", "matcher", ExceptionGroupValue)
def _subgroup(tx: Tracer, self: ExceptionGroupValue, matcher: Value) -> Value:
    parts = _parts(tx, self, matcher, False)
    return tx.item(parts.items, 0)


def _parts(tx: Tracer, group: ExceptionGroupValue, matcher: Value, rest: bool) -> TupleValue:
    parts = inlined(tx, polyfills.split_group, [group, matcher, Const(rest)])
    assert isinstance(parts, TupleValue)
    return _of_one_raise(tx, group, parts)


def _of_one_raise(tx: Tracer, group: ExceptionGroupValue, parts: TupleValue) -> TupleValue:
    """Parts get the traceback of the whole."""
    for part in tx.items(parts.items):
        if isinstance(part, ExceptionGroupValue):
            part.like = group.like
    return parts


# ---- except* ----------------------------------------------------------------------------------------------


def match(tx: Tracer, exc: Value, kinds: Value) -> tuple[Value, Value]:
    """What of `exc` an `except*` clause handles, as a group, and what is left (None for nothing)."""
    real = tx.as_python(kinds)
    for cls in real if isinstance(real, tuple) else (real,):
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise tx.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    for cls in real if isinstance(real, tuple) else (real,):
        if issubclass(cls, BaseExceptionGroup):
            raise tx.throw(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    if not isinstance(exc, ExceptionValue):
        return NONE, NONE
    if issubclass(exc.cls, real):
        if not isinstance(exc, ExceptionGroupValue):
            exc = tx_call(tx, tx.wrap(BaseExceptionGroup, None), [Const(""), TupleValue([exc])])
        return exc, NONE
    if not isinstance(exc, ExceptionGroupValue):
        return NONE, exc
    parts = tx_call(tx, getattr_(tx, exc, "split"), [kinds])
    if not isinstance(parts, TupleValue):
        raise tx.throw(TypeError, f"{exc.cls.__name__}.split must return a tuple, not {parts.cls.__name__}")
    if len(parts.items) < 2:
        raise tx.throw(TypeError, f"{exc.cls.__name__}.split must return a 2-tuple, got tuple of size {len(parts.items)}")
    return tx.item(parts.items, 0), tx.item(parts.items, 1)


def reraise(tx: Tracer, original: Value, outcomes: Value) -> Value:
    """What leaves a `try` with `except*` clauses: new exceptions, and what nobody handled or somebody raised again in its old shape."""
    assert isinstance(outcomes, ListValue)
    excs = [v for v in tx.items(outcomes.items) if isinstance(v, ExceptionValue)]
    if not isinstance(original, ExceptionGroupValue):  # it was wrapped for the one clause that took it
        return excs[0] if excs else NONE
    again = [v for v in excs if isinstance(v, ExceptionGroupValue) and v.like is original.like]
    raised: list[Value] = [v for v in excs if v not in again]
    if again:
        parts = inlined(tx, polyfills.project_group, [original, tx.make_list(list(again))])
        assert isinstance(parts, TupleValue)
        raised.append(tx.item(_of_one_raise(tx, original, parts).items, 0))
    if len(raised) < 2:
        return raised[0] if raised else NONE
    return tx_call(tx, tx.wrap(BaseExceptionGroup, None), [Const(""), tx.make_list(raised)])
