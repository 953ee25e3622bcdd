"""Dict and set tables over values: which values are equal as keys.

A hash key is a Python object whose == and hash agree with the program's: constants by value, everything else by identity of
the real object (or of the value, for objects the trace made). Objects with their own __eq__ are real or refused.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynamo.inspection import is_a
from dynamo.symbolic.choices import ChoiceValue, plainly
from dynamo.symbolic.values import (
    ArrayValue,
    ClassValue,
    Const,
    DictValue,
    FunctionValue,
    Lazy,
    MethodValue,
    NumberValue,
    ObjectValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.tracer import Tracer


_METHOD = object()  # marks the key of a bound method: methods are equal that bind one function to one object


class _Identity:
    """Key for an object compared by identity."""

    __slots__ = ("what",)

    def __init__(self, what: object) -> None:
        self.what = what

    def __hash__(self) -> int:
        return id(self.what)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.what is self.what


class _UserKey:
    """Key for an object the trace made whose class defines its own hash and equality."""

    __slots__ = ("hash", "tx", "v")

    def __init__(self, tx: Tracer, v: ObjectValue) -> None:
        from dynamo.symbolic.builtin_functions import hash_

        self.tx = tx
        self.v = v
        self.hash: int = hash_(tx, v).value

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        from dynamo.symbolic.operators import equal

        return equal(self.tx, self.v, other.v if isinstance(other, _UserKey) else self.tx.wrap(other, None))


def hash_key(tx: Tracer, v: Value) -> Any:
    """The key of a value, or the TypeError of the program for unhashable ones."""
    if isinstance(v, Const):
        return v.value
    if isinstance(v, TupleValue):
        return tuple(hash_key(tx, x) for x in tx.items(v.items))
    if isinstance(v, SetValue) and v.cls is frozenset:
        return frozenset(v.table)
    if isinstance(v, TensorValue):
        return _Identity(v.obj if v.obj is not None else v)
    if isinstance(v, NumberValue | ArrayValue):  # of an array, its class says that it has no hash
        if v.cls.__hash__ is None:
            raise tx.throw(TypeError, f"unhashable type: '{v.cls.__name__}'")
        raise tx.break_("DD003", f"hash of a {v.cls.__name__}")
    if isinstance(v, ObjectValue):
        h: Any = v.cls.__hash__
        if h is None:
            raise tx.throw(TypeError, f"unhashable type: '{v.cls.__name__}'")
        if h is object.__hash__ or isinstance(v.obj, torch.nn.Module):
            return _Identity(v.obj if v.obj is not None else v)
        known = tx.try_python(v)
        if known is not None:
            return known[0]
        if v.obj is not None:
            return v.obj
        return _UserKey(tx, v)
    if isinstance(v, SliceValue):
        if slice.__hash__ is None:  # before 3.12
            raise tx.throw(TypeError, "unhashable type: 'slice'")
        return slice(*(hash_key(tx, x) for x in v.parts))
    if isinstance(v, MethodValue):
        return (_METHOD, _Identity(getattr(v.self_, "obj", None) or v.self_), hash_key(tx, v.fn))
    obj = getattr(v, "obj", None)
    if isinstance(v, ClassValue | FunctionValue) or obj is not None:
        return object_key(tx, obj) if obj is not None else _Identity(v)
    if isinstance(v, ChoiceValue):
        raise plainly(tx)
    known = tx.try_python(v)
    if known is not None:
        try:
            hash(known[0])
        except TypeError as e:
            raise tx.throw(TypeError, str(e)) from e
        return known[0]
    return _Identity(v)


def _members(obj: Any) -> Iterator[object]:
    return tuple.__iter__(obj)


def key_in(tx: Tracer, v: Value, table: dict[Any, Any]) -> Any:
    """The key of a value that is looked for in a table. Where it is missing, the object differs from all keys of its kind there."""
    k = hash_key(tx, v)
    if k not in table and isinstance(v, ObjectValue | FunctionValue | MethodValue):
        for entry in table.values():
            other = entry[0] if isinstance(entry, tuple) else entry
            if isinstance(v, MethodValue) and isinstance(other, MethodValue):
                tx.rely_on_apart(v.self_, other.self_)
            elif isinstance(other, ObjectValue | FunctionValue):
                tx.rely_on_apart(v, other)
    return k


def object_key(tx: Tracer, obj: object) -> Any:
    """The key `hash_key` gives for the value of this real object."""
    if issubclass(type(obj), torch.Tensor | torch.nn.Module):
        return _Identity(obj)
    if type(obj) is types.MethodType:
        return (_METHOD, _Identity(obj.__self__), object_key(tx, obj.__func__))
    if issubclass(type(obj), tuple):
        return tuple(object_key(tx, x) for x in _members(obj))
    if type(obj).__hash__ is object.__hash__ and not issubclass(type(obj), type):
        return _Identity(obj)
    return obj


def guard_keys(tx: Tracer, d: DictValue) -> None:
    """Rely on the keys (and their order) of a real dict."""
    if not d.keys_guarded:
        d.keys_guarded = True
        if d.source is not None:
            tx.guard(d.source, "dict_keys", tuple(d.obj))


def _guard_membership(tx: Tracer, d: DictValue, key: Value, entry: tuple[Value, Value | Lazy] | None) -> None:
    """Rely on a key being in a real dict, or not; what the trace itself has put there or removed needs no guard."""
    if d.source is None or d.keys_guarded:
        return
    known = tx.try_python(key)
    if known is None:
        guard_keys(tx, d)
        return
    if id(d) in tx.mutated:
        written = entry is not None and not isinstance(entry[1], Lazy)
        if written or (entry is None and dict.__contains__(d.obj, known[0])):
            return
    if entry is not None:
        tx.guard(d.source, "has_key", known[0])
    elif d.source.kind == "inst_dict" and d.owner is not None and isinstance(known[0], str) and not is_a(d.owner.obj, torch.nn.Module):
        tx.guard(d.source.base, "no_inst_attr", known[0])  # also holds while the object has no dict yet
    else:
        tx.guard(d.source, "no_key", known[0])


def dict_get(tx: Tracer, d: DictValue, key: Value) -> Value | None:
    """The item, or None when the key is missing; guards presence or absence."""
    k = key_in(tx, key, d.table)
    entry = d.table.get(k)
    if entry is None:
        _guard_membership(tx, d, key, None)
        return None
    real_key, child = entry
    if isinstance(child, Lazy):
        child = tx.wrap(child.obj, child.source)
        d.table[k] = (real_key, child)
    return child


def dict_has(tx: Tracer, d: DictValue, key: Value) -> bool:
    """Membership without looking at the item."""
    entry = d.table.get(key_in(tx, key, d.table))
    _guard_membership(tx, d, key, entry)
    return entry is not None


def dict_set(tx: Tracer, d: DictValue, key: Value, v: Value) -> None:
    k = key_in(tx, key, d.table)
    tx.touch(d)
    old = d.table.get(k)
    if old is None and d.source is not None and not d.keys_guarded and _existed(tx, d, key):
        guard_keys(tx, d)  # put back after it was removed: the order of the keys changes
    if (
        old is not None
        and isinstance(old[1], TensorValue)
        and old[1].node.op == "get_attr"
        and old[1].source is not None
        and old[1] is not v
    ):
        # A parameter or buffer that the program itself replaces changes from call to call: it must be an input.
        raise tx.restart_as_input(old[1].source)
    d.table[k] = (old[0] if old is not None else key, v)


def _existed(tx: Tracer, d: DictValue, key: Value) -> bool:
    known = tx.try_python(key)
    return known is None or dict.__contains__(d.obj, known[0])


def dict_del(tx: Tracer, d: DictValue, key: Value) -> Value | None:
    """Remove and return the item, or None when missing."""
    k = hash_key(tx, key)
    v = dict_get(tx, d, key)
    if v is None:
        return None
    tx.touch(d)
    del d.table[k]
    return v


def dict_items(tx: Tracer, d: DictValue) -> list[tuple[Value, Value]]:
    """All items, with the key list guarded."""
    guard_keys(tx, d)
    out = []
    for k in list(d.table):
        key, child = d.table[k]
        if isinstance(child, Lazy):
            child = tx.wrap(child.obj, child.source)
            d.table[k] = (key, child)
        out.append((key, child))
    return out


def dict_keys(tx: Tracer, d: DictValue) -> list[Value]:
    guard_keys(tx, d)
    return [key for key, _ in d.table.values()]
