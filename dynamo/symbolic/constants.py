"""Between values and the Python objects they are known to be."""

from __future__ import annotations

import enum
import types
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.errors import NotConstant
from dynamo.symbolic.hashing import dict_items
from dynamo.symbolic.values import (
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

if TYPE_CHECKING:
    from dynamo.symbolic.tracer import Tracer


# C types of values: known once their identity is guarded.
IMMUTABLE_MODULES = ("re", "_thread", "_contextvars", "datetime", "decimal", "zoneinfo", "uuid")


def as_python(tx: Tracer, v: Value) -> Any:
    """The object itself where identity matters (classes, functions, enum members), an equal copy for containers."""
    if isinstance(v, Const):
        return v.value
    if isinstance(v, TupleValue):
        parts = [as_python(tx, x) for x in tx.items(v.items)]
        return make_tuple(v.cls, parts)
    if isinstance(v, ListValue) and v.cls is list:
        return [as_python(tx, x) for x in tx.items(v.items)]
    if isinstance(v, DictValue) and v.cls is dict and v.owner is None:
        return {as_python(tx, k): as_python(tx, x) for k, x in dict_items(tx, v)}
    if isinstance(v, SetValue) and v.cls in (set, frozenset):
        return v.cls(as_python(tx, x) for x in v.table.values())
    if isinstance(v, SliceValue):
        return slice(*(as_python(tx, x) for x in v.parts))
    if isinstance(v, OpaqueValue):
        if issubclass(v.cls, torch.Tensor):
            raise NotConstant(v.describe())  # what it holds, and what its class does with it, is for the program to see
        if v.source is not None and v.source.kind != "const":
            tx.guard(v.source, "is", v.obj)
        return v.obj
    if isinstance(v, ClassValue | ModuleValue | BuiltinValue | PropertyValue):
        return v.obj
    if isinstance(v, FunctionValue) and v.obj is not None:
        return v.obj
    if isinstance(v, ObjectValue) and v.obj is not None and is_frozen(v.obj):
        return v.obj
    raise NotConstant(v.describe())


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
