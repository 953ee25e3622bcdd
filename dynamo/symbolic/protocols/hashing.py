"""hash(v), id(v), and the keys of values in dicts and sets: which values are equal as keys.

A key is a Python object whose == and hash agree with the program's: constants by value, everything else by identity of the real object
(or of the value, for objects the trace made). Objects with their own __eq__ are real or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.choices import ChoiceValue
from dynamo.symbolic.protocols.operators import equal, special
from dynamo.symbolic.protocols.tables import ComparedKey, hash_key
from dynamo.symbolic.values.keys import METHOD, Identity, Own, compares_itself, object_key
from dynamo.symbolic.values.kinds import (
    ArrayValue,
    BuiltinValue,
    ClassValue,
    Const,
    FunctionValue,
    MethodValue,
    ModuleValue,
    NumberValue,
    ObjectValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def address(tx: Tracer, v: Value) -> Const:
    """id(v) as a constant."""
    obj = v.value if isinstance(v, Const) else getattr(v, "obj", None)
    if isinstance(v, Const) and (v.source is None or v.value is None or isinstance(v.value, bool)):
        if v.value is None or isinstance(v.value, bool):
            return Const(id(v.value))
        obj = None
    if obj is None:
        raise tx.break_("DD005", f"id() of {v.describe()}", "an object made while tracing has no address yet.")
    if v.source is not None and v.source.kind != "const" and not isinstance(v, ClassValue | ModuleValue | BuiltinValue):
        tx.guard(v.source, "is", obj)
    return Const(id(obj))


def hash_(tx: Tracer, v: Value) -> Const:
    """hash(v) as a constant."""
    if isinstance(v, Const):
        try:
            return Const(hash(v.value))
        except TypeError as e:
            raise tx.throw(TypeError, str(e)) from e
    if isinstance(v, ClassValue | BuiltinValue | ModuleValue):
        return Const(hash(v.obj))
    if isinstance(v, SliceValue) and (known := tx.try_python(v)) is not None:
        return Const(hash(hash_key(tx, v)))
    if isinstance(v, TensorValue | FunctionValue):
        found: Value | None = address(tx, v)
        if isinstance(v.obj, object) and v.obj is not None:
            return Const(hash(v.obj))
    else:
        if v.cls.__hash__ is None:
            raise tx.throw(TypeError, f"unhashable type: '{c_name(v.cls)}'")
        found = special(tx, v, "__hash__")
    known = tx.try_python(found) if found is not None else None
    if known is None or not isinstance(known[0], int):
        raise tx.throw(TypeError, "__hash__ method should return an integer")
    return Const(_as_hash(known[0]))


class Hashed:
    """Stands for an object with this hash: a number itself would be hashed again, which changes large ones."""

    def __init__(self, h: int) -> None:
        self.h = h

    def __hash__(self) -> int:
        return self.h


def _as_hash(h: int) -> int:
    """What hash() makes of the result of `__hash__`."""
    return hash(Hashed(h))


# ---- keys: a row per kind ---------------------------------------------------------------------------------


class _Compared(ComparedKey):
    """Key for a value whose class says in Python which others are equal to it, or for a container of one."""

    __slots__ = ("hash", "tx", "v")

    def __init__(self, tx: Tracer, v: Value, hashed: int) -> None:
        self.tx, self.v, self.hash = tx, v, hashed

    def __hash__(self) -> int:
        return self.hash

    def found_in(self, table: dict[Any, Any]) -> Any:
        obj = getattr(self.v, "obj", None)
        if self in table or (obj is not None and Own(obj) in table):
            return self if self in table else Own(obj)
        for stored, entry in table.items():
            if hash(stored) == self.hash and equal(self.tx, entry[0] if isinstance(entry, tuple) else entry, self.v):
                return stored
        return self


def _is_compared(key: object) -> bool:
    return isinstance(key, ComparedKey | Own)


def _tuple(tx: Tracer, v: TupleValue) -> Any:
    keys = tuple(hash_key(tx, x) for x in tx.items(v.items))
    return _Compared(tx, v, hash(tuple(Hashed(hash(k)) for k in keys))) if any(map(_is_compared, keys)) else keys


def _set(tx: Tracer, v: SetValue) -> Any:
    if v.cls is not frozenset:
        return _object(tx, v)
    return _Compared(tx, v, hash_(tx, v).value) if any(map(_is_compared, v.table)) else frozenset(v.table)


def _tensor(tx: Tracer, v: TensorValue) -> Any:
    return Identity(v.obj if v.obj is not None else v)


def _computed(tx: Tracer, v: NumberValue | ArrayValue) -> Any:
    if v.cls.__hash__ is None:  # of an array, its class says that it has no hash
        raise tx.throw(TypeError, f"unhashable type: '{c_name(v.cls)}'")
    raise tx.break_("DD003", f"hash of a {v.cls.__name__}")


def _object(tx: Tracer, v: ObjectValue) -> Any:
    h: Any = v.cls.__hash__
    if h is None:
        raise tx.throw(TypeError, f"unhashable type: '{c_name(v.cls)}'")
    if h is object.__hash__ or isinstance(v.obj, torch.nn.Module):
        return Identity(v.obj if v.obj is not None else v)
    if compares_itself(v.cls):
        return _Compared(tx, v, hash_(tx, v).value)
    known = tx.try_python(v)
    if known is not None:
        return _hashable(tx, known[0])
    return v.obj if v.obj is not None else _Compared(tx, v, hash_(tx, v).value)


def _slice(tx: Tracer, v: SliceValue) -> Any:
    if slice.__hash__ is None:  # before 3.12
        raise tx.throw(TypeError, "unhashable type: 'slice'")
    return slice(*(hash_key(tx, x) for x in v.parts))


def _method(tx: Tracer, v: MethodValue) -> Any:
    return (METHOD, Identity(getattr(v.self_, "obj", None) or v.self_), hash_key(tx, v.fn))


def _definition(tx: Tracer, v: ClassValue | FunctionValue) -> Any:
    return object_key(v.obj) if v.obj is not None else Identity(v)


def _choice(tx: Tracer, v: ChoiceValue) -> Any:
    raise tx.restart_plainly()


def _other(tx: Tracer, v: Value) -> Any:
    if v.cls.__hash__ is None:  # of the keys and the items of a dict
        raise tx.throw(TypeError, f"unhashable type: '{c_name(v.cls)}'")
    obj = getattr(v, "obj", None)
    if obj is not None:
        return object_key(obj)
    known = tx.try_python(v)
    return Identity(v) if known is None else _hashable(tx, known[0])


def _hashable(tx: Tracer, obj: object) -> object:
    """The object, which the program is told of where it holds what has no hash."""
    try:
        hash(obj)
    except TypeError as e:
        raise tx.throw(TypeError, str(e)) from e
    return obj


fill(Value, hash_key=_other)
fill(TupleValue, hash_key=_tuple)
fill(SetValue, hash_key=_set)
fill(TensorValue, hash_key=_tensor)
fill(NumberValue, ArrayValue, hash_key=_computed)
fill(ObjectValue, hash_key=_object)
fill(SliceValue, hash_key=_slice)
fill(MethodValue, hash_key=_method)
fill(ClassValue, FunctionValue, hash_key=_definition)
fill(ChoiceValue, hash_key=_choice)
