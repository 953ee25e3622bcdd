"""Between values and the Python objects they are known to be."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.protocols.tables import dict_items
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    ClassValue,
    Const,
    DictValue,
    FunctionValue,
    ListValue,
    ModuleValue,
    ObjectValue,
    OpaqueValue,
    PropertyValue,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill, slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


# C types of values: known once their identity is guarded.
IMMUTABLE_MODULES = ("re", "_thread", "_contextvars", "datetime", "decimal", "zoneinfo", "uuid")


def as_python(tx: Tracer, v: Value) -> Any:
    """The object itself where identity matters (classes, functions, enum members), an equal copy for containers."""
    return slots(v).as_python(tx, v)


def _const(tx: Tracer, v: Const) -> Any:
    return v.value


def _tuple(tx: Tracer, v: TupleValue) -> Any:
    return make_tuple(v.cls, [as_python(tx, x) for x in tx.items(v.items)])


def _list(tx: Tracer, v: ListValue) -> Any:
    return [as_python(tx, x) for x in tx.items(v.items)] if v.cls is list else _frozen(tx, v)


def _dict(tx: Tracer, v: DictValue) -> Any:
    if v.cls is dict and v.owner is None:
        return {as_python(tx, k): as_python(tx, x) for k, x in dict_items(tx, v)}
    return _frozen(tx, v)


def _set(tx: Tracer, v: SetValue) -> Any:
    return v.cls(as_python(tx, x) for x in v.table.values()) if v.cls in (set, frozenset) else _frozen(tx, v)


def _slice(tx: Tracer, v: SliceValue) -> Any:
    return slice(*(as_python(tx, x) for x in v.parts))


def _opaque(tx: Tracer, v: OpaqueValue) -> Any:
    if issubclass(v.cls, torch.Tensor):
        raise NotConstant(v.describe())  # what it holds, and what its class does with it, is for the program to see
    if _is_writable_memory(v.obj):
        raise NotConstant(v.describe())
    if v.source is not None and v.source.kind != "const":
        tx.guard(v.source, "is", v.obj)
    return v.obj


def _is_writable_memory(obj: object) -> bool:
    """bytearray, array, memoryview and their like: what such an object holds is another matter than which one it is."""
    try:
        with memoryview(obj) as seen:  # type: ignore[arg-type]  # refused where it is none
            return not seen.readonly
    except TypeError:
        return False


def _real(tx: Tracer, v: ClassValue | ModuleValue | BuiltinValue | PropertyValue) -> Any:
    return v.obj


def _function(tx: Tracer, v: FunctionValue) -> Any:
    return v.obj if v.obj is not None else _unknown(tx, v)


def _frozen(tx: Tracer, v: ObjectValue) -> Any:
    return v.obj if v.obj is not None and is_frozen(v.obj) else _unknown(tx, v)


def _unknown(tx: Tracer, v: Value) -> Any:
    raise NotConstant(v.describe())


fill(Value, as_python=_unknown)
fill(Const, as_python=_const)
fill(TupleValue, as_python=_tuple)
fill(ListValue, as_python=_list)
fill(DictValue, as_python=_dict)
fill(SetValue, as_python=_set)
fill(SliceValue, as_python=_slice)
fill(OpaqueValue, as_python=_opaque)
fill(ClassValue, ModuleValue, BuiltinValue, PropertyValue, as_python=_real)
fill(FunctionValue, as_python=_function)
fill(ObjectValue, as_python=_frozen)


def make_tuple(cls: type, parts: list[Any]) -> Any:
    """Build a tuple or a subclass of it from its items."""
    if cls is tuple:
        return tuple(parts)
    if hasattr(cls, "_fields") or hasattr(cls, "_make"):
        return tuple.__new__(cls, parts)
    return cls(parts)


def is_frozen(obj: object) -> bool:
    """Objects without state of interest, known once their identity is guarded."""
    return issubclass(type(obj), enum.Enum | types.GenericAlias) or type(obj).__module__ == "typing" or is_c_enum(type(obj))


def is_c_enum(cls: type) -> bool:
    """Enums that torch defines in C++ (torch.nn.attention.SDPBackend)."""
    return "__members__" in cls.__dict__ and cls.__base__ is not None and cls.__base__.__name__ == "pybind11_object"
