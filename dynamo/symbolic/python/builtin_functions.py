"""The remaining builtin functions: sizes, sums, extremes, identity, input and output."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from dynamo.bytecode import facts
from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import instance_dict
from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.protocols.choices import choice
from dynamo.symbolic.protocols.containers import bool_, steps
from dynamo.symbolic.protocols.hashing import address, hash_
from dynamo.symbolic.protocols.iteration import iter_, unpack_iterable
from dynamo.symbolic.protocols.operators import binary, compare, len_, truth
from dynamo.symbolic.protocols.registry import breaks
from dynamo.symbolic.protocols.rows import on_function
from dynamo.symbolic.protocols.tables import dict_del, dict_has, dict_set
from dynamo.symbolic.python.lists import sort_values
from dynamo.symbolic.values.kinds import (
    CellValue,
    ClassValue,
    Const,
    DictValue,
    ModuleValue,
    TensorValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


@on_function(len, "obj")
def _len(tx: Tracer, v: Value) -> Value:
    return len_(tx, v)


@on_function(any, "iterable")
def _any(tx: Tracer, iterable: Value) -> Value:
    return bool_(any(truth(tx, x) for x in steps(tx, iter_(tx, iterable))))


@on_function(all, "iterable")
def _all(tx: Tracer, iterable: Value) -> Value:
    return bool_(all(truth(tx, x) for x in steps(tx, iter_(tx, iterable))))


@on_function(sum, "iterable | start?")
def _sum(tx: Tracer, iterable: Value, start: Value | None) -> Value:
    total, it = start if start is not None else Const(0), iter_(tx, iterable)
    if issubclass(total.cls, str | bytes):
        kind, join = ("strings", "''") if issubclass(total.cls, str) else ("bytes", "b''")
        raise tx.throw(TypeError, f"sum() can't sum {kind} [use {join}.join(seq) instead]")
    numbers: list[Any] | None = [] if _is_number(total) else None  # floats are added with compensation since 3.12: left to CPython
    for x in steps(tx, it):
        if numbers is not None and _is_number(x):
            numbers.append(tx.as_python(x))
            continue
        if numbers is not None:
            total, numbers = tx.wrap(sum(numbers, tx.as_python(total)), None), None
        total = binary(tx, "+", total, x)
    return total if numbers is None else tx.wrap(sum(numbers, tx.as_python(total)), None)


def _is_number(v: Value) -> bool:
    return isinstance(v, Const) and type(v.value) in (int, float, bool, complex)


def _extreme(fn: Any, symbol: str) -> None:
    @on_function(fn, "*args * key? default?")
    def _row(tx: Tracer, key: Value | None, default: Value | None, args: list[Value]) -> Value:
        name = fn.__name__
        if not args:
            raise tx.throw(TypeError, f"{name} expected at least 1 argument, got 0")
        if len(args) > 1 and default is not None:
            raise tx.throw(TypeError, f"Cannot specify a default for {name}() with multiple positional arguments")
        plain = key is None or (isinstance(key, Const) and key.value is None)
        best: tuple[Value, Value] | None = None
        for x in args if len(args) > 1 else steps(tx, iter_(tx, args[0])):
            k = x if plain else call(tx, key, [x], {})  # type: ignore[arg-type]  # not None here
            if best is None:
                best = (k, x)
                continue
            is_better = compare(tx, symbol, k, best[0])
            chosen = choice(tx, is_better, x, best[1]) if isinstance(is_better, TensorValue) else None
            if chosen is not None:
                key_of = chosen if plain else choice(tx, is_better, k, best[0])
                tx.has_choices = True
                best = (key_of, chosen) if key_of is not None else None
                if best is None:
                    raise tx.restart_plainly()
            elif truth(tx, is_better):
                best = (k, x)
        if best is not None:
            return best[1]
        if default is not None:
            return default
        raise tx.throw(ValueError, _EMPTY.format(name))


def _empty_text() -> str:
    """The text for an empty argument, which changed between versions."""
    try:
        max([])
    except ValueError as e:
        return str(e).replace("max", "{}")
    raise AssertionError


_EMPTY = _empty_text()
_extreme(max, ">")
_extreme(min, "<")


@on_function(sorted, "iterable * key? reverse?")
def _sorted(tx: Tracer, iterable: Value, key: Value | None, reverse: Value | None) -> Value:
    return tx.make_list(sort_values(tx, unpack_iterable(tx, iterable, with_room=True), key, reverse))


# ---- identity ---------------------------------------------------------------------------------------------


@on_function(id, "obj")
def _id(tx: Tracer, v: Value) -> Value:
    return address(tx, v)


@on_function(hash, "obj")
def _hash(tx: Tracer, v: Value) -> Value:
    return hash_(tx, v)


# ---- namespaces -------------------------------------------------------------------------------------------


@on_function(vars, "object?")
def _vars(tx: Tracer, v: Value | None) -> Value:
    if v is None:
        return _locals(tx)
    d = instance_dict(tx, v)
    if d is not None:
        return d
    raise tx.break_("DD014", f"vars() of {v.describe()}")


@on_function(locals)
def _locals(tx: Tracer) -> Value:
    frame = tx.frame
    if frame.locals is None or not facts.LOCALS_IS_ONE_DICT:
        frame.locals = DictValue()
    d = frame.locals
    for i, slot in enumerate(frame.program.slots):
        found = frame.slots[i]
        child = tx.realize(found) if found is not None else None
        if isinstance(child, CellValue) and slot.kind != "local":
            child = tx.realize(child.contents) if child.contents is not None else None
        if child is not None:
            dict_set(tx, d, Const(slot.name), child)
        elif dict_has(tx, d, Const(slot.name)):
            dict_del(tx, d, Const(slot.name))
    return d


def _names(obj: object) -> tuple[str, ...]:
    return tuple(dir(obj))


def _has_new_names(tx: Tracer, v: ClassValue | ModuleValue) -> bool:
    if isinstance(v, ClassValue):
        return any(cls in v.obj.__mro__ for cls, _ in tx.effects.class_writes)
    members = v.obj.__dict__
    held = tx.identities.by_id.get(id(members))
    return any(key == id(members) for key, _ in tx.effects.global_writes) or (held is not None and id(held) in tx.effects.mutated)


@on_function(dir, "object?")
def _dir(tx: Tracer, v: Value | None) -> Value:
    if isinstance(v, ClassValue | ModuleValue):
        if _has_new_names(tx, v):
            raise tx.break_("DD005", f"dir() of {v.describe()}, which got or lost a name")
        tx.guard(const_source(v.obj, v.obj.__name__).step("call", _names), "eq", _names(v.obj))
    if isinstance(v, ClassValue | ModuleValue | Const):
        return tx.make_list([Const(n) for n in dir(tx.as_python(v))])
    raise tx.break_("DD005", "dir()")


# ---- the outside world ------------------------------------------------------------------------------------


breaks("DD004", print, input, open)
breaks("DD033", breakpoint)
breaks("DD005", exec, eval, compile, globals, __import__)
breaks("DD018", *(getattr(builtins, n) for n in ("aiter", "anext")))
