"""Iteration over values, and membership where a class has no `__contains__`, in CPython's own order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING, getattr_, tx_call
from dynamo.symbolic.protocols.operators import NO_CONTAINER, equal, getitem, is_of_program, special, truth
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    ENDED,
    ClassValue,
    Const,
    ExceptionValue,
    IterValue,
    Lazy,
    ListValue,
    OpaqueValue,
    TracingState,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill, slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def sequence_iter(tx: Tracer, cls: type, items: Callable[[], list[Value | Lazy]], owner: Value) -> IterValue:
    """An iterator over a sequence that may change while it is iterated: reads by index, like CPython's."""
    state = [0]

    def step() -> Value:
        now = items()
        if state[0] >= len(now):
            state[0] = ENDED
            raise StopIteration
        state[0] += 1
        return tx.item(now, state[0] - 1)

    return IterValue(tx, cls, step, lambda: ("sequence", [owner, state[0]]))


LIST_ITERATOR: type = [].__iter__().__class__


def list_iter(tx: Tracer, values: list[Value], cls: type = LIST_ITERATOR) -> IterValue:
    """An iterator over values that exist already."""
    rest = list(reversed(values))

    def step() -> Value:
        if not rest:
            raise StopIteration
        return rest.pop()

    return IterValue(tx, cls, step, lambda: ("values", list(reversed(rest))))


def iter_(tx: Tracer, v: Value) -> Value:
    """iter(v)."""
    result: Value = slots(v).iter(tx, v)
    return result


def _own_iter(tx: Tracer, v: TracingState) -> Value:
    return v


def _class_iter(tx: Tracer, v: ClassValue) -> Value:
    if is_of_program(tx.lookup(v.cls, "__iter__")):
        return _object_iter(tx, v)
    return list_iter(tx, _class_members(tx, v))


def _object_iter(tx: Tracer, v: Value) -> Value:
    result = special(tx, v, "__iter__")
    if result is not None:
        if not isinstance(result, TracingState) and tx.lookup(result.cls, "__next__") is MISSING:
            raise tx.throw(TypeError, f"iter() returned non-iterator of type '{c_name(result.cls)}'")
        return result
    if tx.lookup(v.cls, "__getitem__") is not MISSING:
        return _getitem_iter(tx, v)
    raise tx.throw(TypeError, f"'{c_name(v.cls)}' object is not iterable")


def _constant_iter(tx: Tracer, v: Const) -> IterValue:
    """Over a string or a range: one value at a time, as ranges can be long."""
    try:
        real = iter(v.value)
    except TypeError as e:
        raise tx.throw(TypeError, str(e)) from e
    taken = [0]

    def step() -> Value:
        x = next(real)
        taken[0] += 1
        return tx.wrap(x, None)

    return IterValue(tx, type(real), step, lambda: ("sequence", [v, taken[0]]))


def _class_members(tx: Tracer, v: ClassValue) -> list[Value]:
    try:
        return [tx.wrap(x, None) for x in v.obj]  # type: ignore[attr-defined]  # enums iterate over their members
    except TypeError as e:
        raise tx.throw(TypeError, str(e)) from e


def _getitem_iter(tx: Tracer, v: Value) -> IterValue:
    """The old sequence protocol: __getitem__ with 0, 1, ... until IndexError."""
    state = [0]

    def step() -> Value:
        try:
            x = getitem(tx, v, Const(state[0]))
        except Raised as e:
            if issubclass(e.value.cls, IndexError | StopIteration):
                raise StopIteration from None
            raise
        state[0] += 1
        return x

    return IterValue(tx, type(iter(_Sequence())), step)


class _Sequence:
    def __getitem__(self, i: int) -> int:
        raise IndexError


def next_(tx: Tracer, it: Value) -> Value | None:
    """next(it), or None at the end."""
    if isinstance(it, IterValue):
        try:
            return it.next()
        except StopIteration:
            return None
        except Raised as e:
            if issubclass(e.value.cls, StopIteration):  # a callback of the iterator ended it
                return None
            raise
    step = slots(it).next
    if step is not None:
        found: Value | None = step(tx, it)
        return found
    if isinstance(it, OpaqueValue):
        unseen = tx.break_("DD007", it.describe())
        unseen.consequence = it.source is not None and it.source.root.label.startswith(("L['___stack", "L['.0'"))
        raise unseen
    try:
        result = special(tx, it, "__next__")
    except Raised as e:
        if issubclass(e.value.cls, StopIteration):
            return None
        raise
    if result is None:
        raise tx.throw(TypeError, f"'{c_name(it.cls)}' object is not an iterator")
    return result


def send(tx: Tracer, it: Value, v: Value) -> tuple[bool, Value]:
    """One step of `yield from`: (finished, value)."""
    resume = slots(it).send
    if resume is not None:
        outcome: tuple[bool, Value] = resume(tx, it, v)
        return outcome
    if isinstance(v, Const) and v.value is None:
        try:
            x = special(tx, it, "__next__") if not isinstance(it, TracingState) else next_(tx, it)
        except Raised as e:
            if issubclass(e.value.cls, StopIteration) and isinstance(e.value, ExceptionValue):
                return True, e.value.args[0] if e.value.args else Const(None)
            raise
        return (True, Const(None)) if x is None else (False, x)
    return False, tx_call(tx, getattr_(tx, it, "send"), [v])


def ask_for_room(tx: Tracer, v: Value) -> None:
    """`PyObject_LengthHint`, once an iterator of `v` is made: what asks only wants to know, but methods of the program may do anything."""
    if v.cls in (list, tuple):
        return
    for name in ("__len__", "__length_hint__"):
        raw = tx.lookup(v.cls, name)
        if raw is MISSING:
            continue
        if not is_of_program(raw):
            return
        try:
            answer = special(tx, v, name)
        except Raised as e:
            if issubclass(e.value.cls, TypeError):
                continue
            raise
        if isinstance(answer, Const) and answer.value is NotImplemented and name == "__length_hint__":
            return
        if answer is None or answer.cls is not int or (isinstance(answer, Const) and answer.value < 0):
            raise tx.break_("DD009", f"{name} that gives {answer.describe() if answer is not None else None}")
        return


def unpack_iterable(tx: Tracer, v: Value, limit: int | None = None, with_room: bool = False) -> list[Value]:
    """list(v) as values; stops after `limit` items. `with_room`: the real thing makes a list or tuple and asks how long it will be."""
    if isinstance(v, ListValue | TupleValue) and tx.lookup(v.cls, "__iter__") in (list.__iter__, tuple.__iter__):
        if with_room:
            ask_for_room(tx, v)
        return tx.items(v.items)
    out: list[Value] = []
    it = iter_(tx, v)
    if with_room:
        ask_for_room(tx, v)
    while limit is None or len(out) < limit:
        x = next_(tx, it)
        if x is None:
            break
        out.append(x)
        if len(out) > MAX_UNROLL:
            raise tx.break_("DD020", f"more than {MAX_UNROLL} steps over {v.describe()}")
    return out


MAX_UNROLL = 100_000


def _object_contains(tx: Tracer, owner: Value, v: Value) -> bool:
    result = special(tx, owner, "__contains__", v)
    if result is not None:
        return truth(tx, result)
    if all(tx.lookup(owner.cls, name) is MISSING for name in ("__iter__", "__getitem__")):
        raise tx.throw(TypeError, NO_CONTAINER.format(c_name(owner.cls)))
    it = iter_(tx, owner)
    while (x := next_(tx, it)) is not None:
        if equal(tx, x, v):
            return True
    return False


fill(Value, iter=_object_iter, contains=_object_contains)
fill(Const, iter=_constant_iter)
fill(ClassValue, iter=_class_iter)
fill(TracingState, iter=_own_iter)
