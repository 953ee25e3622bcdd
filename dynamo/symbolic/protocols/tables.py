"""Dict and set values: items by key, with the guards that looking for one needs."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from dynamo.guards.definitions import MISSING
from dynamo.inspection import is_a
from dynamo.source import const_source
from dynamo.symbolic.values.keys import Own, items_of
from dynamo.symbolic.values.kinds import Const, DictValue, FunctionValue, Lazy, MethodValue, ObjectValue, TensorValue, Value
from dynamo.symbolic.values.slots import slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


class ComparedKey:
    """A key that is looked for as the program compares it."""

    __slots__ = ()

    def found_in(self, table: dict[Any, Any]) -> Any:
        """The key in the table that is equal to this one, or this one."""
        raise NotImplementedError


def hash_key(tx: Tracer, v: Value) -> Any:
    """The key of a value (see `keys.py`), or the TypeError of the program for unhashable ones."""
    return v.value if isinstance(v, Const) else slots(v).hash_key(tx, v)


def key_in(tx: Tracer, v: Value, table: dict[Any, Any]) -> Any:
    """The key of a value that is looked for in a table. Where it is missing, the object differs from all keys of its kind there."""
    k = hash_key(tx, v)
    if isinstance(k, ComparedKey):
        return k.found_in(table)
    if k not in table and isinstance(v, ObjectValue | FunctionValue | MethodValue):
        for entry in table.values():
            other = entry[0] if isinstance(entry, tuple) else entry
            if isinstance(v, MethodValue) and isinstance(other, MethodValue):
                tx.rely_on_apart(v.self_, other.self_)
            elif isinstance(other, ObjectValue | FunctionValue):
                tx.rely_on_apart(v, other)
    return k


def aligned(tx: Tracer, table: dict[Any, Value], other: dict[Any, Value]) -> dict[Any, Value]:
    """The items of another set, those that are in this one under its keys."""
    if not any(isinstance(k, ComparedKey | Own) for k in other):
        return other
    out = {}
    for k, v in other.items():
        key = hash_key(tx, v)
        found = key.found_in(table) if isinstance(key, ComparedKey) else key
        out[k if found is key else found] = v
    return out


def guard_keys(tx: Tracer, d: DictValue) -> None:
    """Rely on the keys (and their order) of a real dict."""
    d = d.base or d
    if not d.keys_guarded:
        d.keys_guarded = True
        if d.source is not None:
            tx.guard(d.source, "dict_keys", tuple(k for k, _ in items_of(d.obj)))
        elif d.cls is types.MappingProxyType and d.obj is not None:
            tx.guard(const_source(d.obj, "mappingproxy").step("call", tuple), "eq", tuple(d.obj))


def _guard_membership(tx: Tracer, d: DictValue, key: Value, entry: tuple[Value, Value | Lazy] | None) -> None:
    """Rely on a key being in a real dict, or not; what the trace itself has put there or removed needs no guard."""
    d = d.base or d
    if d.cls is types.MappingProxyType:
        guard_keys(tx, d)
    if d.source is None or d.keys_guarded:
        return
    known = tx.try_python(key)
    if known is None:
        guard_keys(tx, d)
        return
    if id(d) in tx.effects.mutated:
        written = entry is not None and not isinstance(entry[1], Lazy)
        if written or (entry is None and dict.__contains__(d.obj, known[0])):
            return
    _guard_key(tx, d, known[0], entry is not None)


def _guard_key(tx: Tracer, d: DictValue, key: Any, present: bool) -> None:
    """Rely on a real dict having a key when the entry is called, or not."""
    assert d.source is not None
    if present:
        tx.guard(d.source, "has_key", key)
    elif d.source.kind == "inst_dict" and d.owner is not None and isinstance(key, str) and not is_a(d.owner.obj, torch.nn.Module):
        tx.guard(d.source.base, "no_inst_attr", key)  # also holds while the object has no dict yet
    else:
        tx.guard(d.source, "no_key", key)


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
    d.moves += old is None
    d.written.setdefault(k)


def _existed(tx: Tracer, d: DictValue, key: Value) -> bool:
    known = tx.try_python(key)
    return known is None or dict.__contains__(d.obj, known[0])


def dict_del(tx: Tracer, d: DictValue, key: Value) -> Value | None:
    """Remove and return the item, or None when missing."""
    k = key_in(tx, key, d.table)
    v = dict_get(tx, d, key)
    if v is None:
        return None
    known = tx.try_python(key)
    if d.source is not None and not d.keys_guarded and known is not None:
        # An item that the trace itself has set tells nothing of the real dict, from which it is removed only if it was there.
        _guard_key(tx, d, known[0], dict.__contains__(d.obj, known[0]))
    tx.touch(d)
    del d.table[k]
    d.moves += 1
    d.written.pop(k, None)
    d.deleted.add(k)
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


# ---- names of modules, whose dict may be a value as well -----------------------------------------------------


def name_written(tx: Tracer, members: dict[str, Any], name: str) -> Any:
    """What the trace has put under a name of a module, None where it took it away, MISSING where it did neither."""
    held = tx.identities.by_id.get(id(members))
    if not isinstance(held, DictValue):
        written = tx.effects.global_writes.get((id(members), name))
        return MISSING if written is None else written[2]
    if id(held) not in tx.effects.mutated:
        return MISSING
    entry = held.table.get(name)
    if entry is None:
        return None if name in members else MISSING
    return MISSING if isinstance(entry[1], Lazy) else entry[1]


def set_name(tx: Tracer, members: dict[str, Any], name: str, v: Value | None) -> None:
    """Put a value under a name of a module; None takes it away."""
    held = tx.identities.by_id.get(id(members))
    if not isinstance(held, DictValue):
        tx.effects.set_global(members, name, v)
    elif v is None:
        dict_del(tx, held, Const(name))
    else:
        dict_set(tx, held, Const(name), v)


def take_names(tx: Tracer, d: DictValue) -> None:
    """A module's dict that is met after names in it were set holds them from then on."""
    for key, (members, name, v) in list(tx.effects.global_writes.items()):
        if members is d.obj:
            del tx.effects.global_writes[key]
            if v is not None:
                dict_set(tx, d, Const(name), v)
            else:
                dict_del(tx, d, Const(name))
