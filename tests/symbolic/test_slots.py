"""The rows of kinds of values are complete: what is asked of every kind is filled for every kind, and no slot is filled by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_type_hints

import pytest

import dynamo.symbolic.handlers  # noqa: F401  # fills the rows
from dynamo.compile import makers  # noqa: F401  # fills the slot that makes an object again
from dynamo.symbolic.protocols.registry import CODES, CONSTRUCTORS, FUNCTIONS, GETSETS, METHODS, NEW, Table
from dynamo.symbolic.values.kinds import Value
from dynamo.symbolic.values.slots import Slot, Slots, _resolve


def _kinds(cls: type[Value] = Value) -> Iterator[type[Value]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _kinds(sub)


ASKED_OF_ALL = [name for name, hint in get_type_hints(Slots).items() if hint == Slot]


@pytest.mark.parametrize("kind", list(_kinds()), ids=lambda kind: kind.__name__)
def test_kind_has_what_is_asked_of_all(kind: type[Value]) -> None:
    row = _resolve(kind)

    assert [name for name in ASKED_OF_ALL if getattr(row, name) is None] == []


def test_every_slot_is_declared_and_filled() -> None:
    rows = [_resolve(kind) for kind in _kinds()]

    assert get_type_hints(Slots).keys() == set(Slots.__slots__)
    assert [name for name in Slots.__slots__ if all(getattr(row, name) is None for row in rows)] == []


@pytest.mark.parametrize("table", [FUNCTIONS, METHODS, GETSETS, CODES, CONSTRUCTORS, NEW], ids=lambda t: t.what)
def test_an_object_has_one_row(table):
    assert [getattr(obj, "__qualname__", obj) for obj, _ in table.replaced] == []


def test_a_second_row_is_told():
    table = Table("rows")
    table.add(len)(repr)
    table.add(len)(repr)
    assert table.replaced == []
    table.add(len)(str)
    assert table.replaced == [(len, repr)]
    assert table.get(len) is str
