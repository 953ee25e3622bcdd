"""copy.copy and copy.deepcopy over values."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

import torch

from dynamo.symbolic.protocols.attributes import MISSING, find_attr, instance_dict, tx_call
from dynamo.symbolic.protocols.tables import dict_items, dict_set
from dynamo.symbolic.python.dicts import copy_dict
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionValue,
    FunctionValue,
    Lazy,
    ListValue,
    MethodValue,
    ObjectValue,
    OpaqueValue,
    PropertyValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_ATOMS = (Const, ClassValue, FunctionValue, BuiltinValue, PropertyValue, SliceValue)


def shallow(tx: Tracer, v: Value) -> Value:
    """copy.copy(v)."""
    if isinstance(v, _ATOMS) or (isinstance(v, TupleValue) and v.cls is tuple):
        return v
    own = tx.lookup(v.cls, "__copy__")
    if own is not MISSING or isinstance(v, TensorValue):
        found = find_attr(tx, v, "__copy__") if own is not MISSING else None
        if found is None:
            raise tx.break_("DD005", f"copy.copy of {v.describe()}")
        return tx_call(tx, found, [])
    _refuse_custom(tx, v)
    if not isinstance(v, ObjectValue):
        raise tx.break_("DD005", f"copy.copy of {v.describe()}")
    out = _empty(tx, v)
    _fill(tx, out, v)
    return out


def _refuse_custom(tx: Tracer, v: Value) -> None:
    """Classes that say themselves how they are reduced and rebuilt are left to Python."""
    for name in ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__"):
        raw = tx.lookup(v.cls, name)
        if type(raw) is types.FunctionType and raw.__module__ not in ("enum", "torch.nn.modules.module"):
            raise tx.break_("DD005", f"{name} of {v.describe()}")


def _empty(tx: Tracer, v: ObjectValue) -> ObjectValue:
    if isinstance(v, OpaqueValue):
        raise tx.break_("DD005", f"copy of {v.describe()}")
    if isinstance(v, ListValue):
        out: ObjectValue = ListValue([], v.cls)
        assert isinstance(out, ListValue)
        out.maxlen = v.maxlen
        return out
    if isinstance(v, DictValue):
        made = DictValue(v.cls)
        made.default_factory = v.default_factory
        return made
    if isinstance(v, SetValue):
        return SetValue(v.cls)
    if isinstance(v, TupleValue):
        return TupleValue([], v.cls)
    if isinstance(v, ExceptionValue):
        return ExceptionValue(v.cls, list(v.args))
    if tx.lookup(v.cls, "__new__") is not object.__new__:  # numbers, texts, partials: what they hold is given to it
        raise tx.break_("DD005", f"copy of {v.describe()}")
    return ObjectValue(v.cls)


def _fill(tx: Tracer, out: ObjectValue, v: ObjectValue) -> None:
    if isinstance(v, ListValue | TupleValue) and isinstance(out, ListValue | TupleValue):
        out.items = list(v.items)
    elif isinstance(v, DictValue) and isinstance(out, DictValue):
        out.table = copy_dict(tx, v, v.cls).table
    elif isinstance(v, SetValue) and isinstance(out, SetValue):
        out.table = dict(v.table)
    _attributes(tx, out, v, lambda x: x)


def _attributes(tx: Tracer, out: ObjectValue, v: ObjectValue, each: object) -> None:
    """Instance attributes and slots, each passed through `each`."""
    assert callable(each)
    d = instance_dict(tx, v)
    if d is not None:
        target = instance_dict(tx, out)
        assert target is not None
        for k, x in dict_items(tx, d):
            dict_set(tx, target, k, each(x))
    for name in _slot_names(v.cls):
        found = find_attr(tx, v, name)
        if found is not None:
            out.slots[name] = each(found)


def _slot_names(cls: type) -> list[str]:
    names: list[str] = []
    for c in cls.__mro__:
        slots = c.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else list(slots)
    return [n for n in names if n not in ("__dict__", "__weakref__")]


def deep(tx: Tracer, v: Value, memo: dict[int, tuple[Value, Value]]) -> Value:
    """copy.deepcopy(v). `memo` keeps shared parts shared."""
    known = memo.get(id(v))
    if known is not None:
        return known[1]
    if isinstance(v, _ATOMS):
        return v
    out = _deep(tx, v, memo)
    memo[id(v)] = (v, out)
    return out


def _deep(tx: Tracer, v: Value, memo: dict[int, tuple[Value, Value]]) -> Value:
    if isinstance(v, TensorValue):
        return _tensor(tx, v)
    if isinstance(v, MethodValue):
        return MethodValue(v.fn, deep(tx, v.self_, memo))
    if not isinstance(v, ObjectValue) or isinstance(v.obj, torch.nn.Module):
        raise tx.break_("DD005", f"copy.deepcopy of {v.describe()}")
    own = find_attr(tx, v, "__deepcopy__") if tx.lookup(v.cls, "__deepcopy__") is not MISSING else None
    if own is not None:
        return tx_call(tx, own, [DictValue()])
    if isinstance(v, OpaqueValue) or (tx.try_python(v) is not None and not isinstance(v, ListValue | DictValue | SetValue | TupleValue)):
        if v.obj is not None and tx.try_python(v) is not None and not isinstance(v, OpaqueValue):
            return v
        raise tx.break_("DD005", f"copy.deepcopy of {v.describe()}")
    _refuse_custom(tx, v)
    if isinstance(v, TupleValue):
        parts: list[Value | Lazy] = [deep(tx, x, memo) for x in tx.items(v.items)]
        same = all(a is b for a, b in zip(parts, v.items, strict=True))
        return v if same and v.cls is tuple else TupleValue(parts, v.cls)
    out = _empty(tx, v)
    memo[id(v)] = (v, out)
    if isinstance(v, ListValue) and isinstance(out, ListValue):
        out.items = [deep(tx, x, memo) for x in tx.items(v.items)]
    elif isinstance(v, DictValue) and isinstance(out, DictValue):
        for k, x in dict_items(tx, v):
            dict_set(tx, out, deep(tx, k, memo), deep(tx, x, memo))
    elif isinstance(v, SetValue) and isinstance(out, SetValue):
        out.table = {k: deep(tx, x, memo) for k, x in v.table.items()}
    _attributes(tx, out, v, lambda x: deep(tx, x, memo))
    return out


def _tensor(tx: Tracer, v: TensorValue) -> Value:
    """A copy of a plain tensor; leaves that need gradients and results of autograd follow rules of their own."""
    if v.fake.requires_grad or v.cls is not torch.Tensor:
        raise tx.break_("DD005", f"copy.deepcopy of {v.describe()}")
    return tx.call_method("clone", [v], {})
