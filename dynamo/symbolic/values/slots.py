"""What can be done with a kind of value: one row per kind, as CPython's type objects have slots.

    fill(ListValue, as_python=_list_as_python, to_fx=_list_to_fx)

A row is filled where the knowledge is, often in a module above the one that asks; who asks only knows the slot. A kind has the slots of its
bases except for those that it fills itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.symbolic.values.kinds import Value

# The first parameter of every slot is the tracer (of `rebuild`, what writes the code), the second the value.
Slot = Callable[..., Any]


class Slots:
    """The row of one kind. None: the kind has nothing of the sort."""

    __slots__ = (
        "as_python",  # (tx, v) -> the object that v is known to be, or NotConstant
        "call",  # (tx, v, args, kwargs) -> value
        "contains",  # (tx, v, x) -> bool
        "getattr",  # (tx, v, name) -> value, or None where there is none
        "getitem",  # (tx, v, key) -> value
        "getset",  # (tx, v, name) -> attribute that C code computes, or None
        "hash_key",  # (tx, v) -> key in the tables of dicts and sets
        "iter",  # (tx, v) -> iterator
        "len",  # (tx, v) -> value
        "next",  # (tx, v) -> value, or None at the end
        "operands",  # (tx, name, args) -> arguments of an operator of the graph, where v is one of two
        "own_attribute",  # (tx, v, name, raw) -> attribute that Python code put on the object, or None; `raw`: what its class has
        "rebuild",  # (writer, v) -> expression of generated code that makes the object again
        "send",  # (tx, v, sent) -> (finished, value)
        "set_attribute",  # (tx, v, name, value); a value of None deletes
        "setitem",  # (tx, v, key, x)
        "to_fx",  # (tx, v) -> argument of a node of the graph
        "truth",  # (tx, v) -> bool
    )

    as_python: Slot
    to_fx: Slot
    hash_key: Slot
    call: Slot
    truth: Slot
    len: Slot
    getitem: Slot
    setitem: Slot
    contains: Slot
    iter: Slot
    next: Slot | None
    send: Slot | None
    rebuild: Slot | None
    operands: Slot | None
    getattr: Slot
    getset: Slot | None
    own_attribute: Slot | None
    set_attribute: Slot | None


_FILLED: dict[type[Value], dict[str, Slot]] = {}
_ROWS: dict[type[Value], Slots] = {}


def fill(*kinds: type[Value], **slots: Slot) -> None:
    """Fill slots of these kinds; each once."""
    for kind in kinds:
        filled = _FILLED.setdefault(kind, {})
        assert not filled.keys() & slots.keys(), f"{kind.__name__} has {sorted(filled.keys() & slots.keys())} already"
        filled |= slots
    _ROWS.clear()


def slots(v: Value) -> Slots:
    """The row of the kind that `v` is."""
    row = _ROWS.get(type(v))
    return row if row is not None else _resolve(type(v))


def _resolve(kind: type[Value]) -> Slots:
    row = _ROWS[kind] = Slots()
    for name in Slots.__slots__:
        found = next((_FILLED[base][name] for base in kind.__mro__ if name in _FILLED.get(base, ())), None)
        setattr(row, name, found)
    return row
