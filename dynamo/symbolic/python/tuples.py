"""tuple with its subclasses (named tuples, torch.Size, struct sequences), range and slice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.calls import fold
from dynamo.symbolic.protocols.containers import as_slice, bool_, index_of, position, slice_of, subscript_of
from dynamo.symbolic.protocols.hashing import Hashed, hash_
from dynamo.symbolic.protocols.iteration import sequence_iter, unpack_iterable
from dynamo.symbolic.protocols.operators import equal
from dynamo.symbolic.protocols.registry import getset, pure
from dynamo.symbolic.protocols.rows import on_class, on_method
from dynamo.symbolic.python.lists import COMPARISONS, compare_sequences
from dynamo.symbolic.values.kinds import NONE, NOT_IMPLEMENTED, Const, Lazy, SliceValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

SIZE = torch.Size
TUPLES = (tuple, SIZE)


@on_class(tuple, "iterable?")
def _make_tuple(tx: Tracer, cls: type, iterable: Value | None) -> Value:
    if cls is tuple and isinstance(iterable, TupleValue) and iterable.cls is tuple:
        return iterable
    return TupleValue(list(unpack_iterable(tx, iterable, with_room=True)) if iterable is not None else [], cls)


@on_class(SIZE, "iterable?")
def _make_size(tx: Tracer, cls: type, iterable: Value | None) -> Value:
    items = unpack_iterable(tx, iterable, with_room=True) if iterable is not None else []
    for i, x in enumerate(items):
        if not (isinstance(x, Const) and type(x.value) in (int, bool)):
            raise tx.throw(TypeError, f"torch.Size() takes an iterable of 'int' (item {i} is '{c_name(x.cls)}')")
    return TupleValue(list(items), cls)


def _plain(v: TupleValue) -> type:
    return v.cls if v.cls is SIZE else tuple


@on_method(TUPLES, "__getitem__", "key", TupleValue)
def _getitem(tx: Tracer, self: TupleValue, key: Value) -> Value:
    s = as_slice(tx, key)
    if s is not None:
        if s.step == 0:
            raise tx.throw(ValueError, "slice step cannot be zero")
        return TupleValue(self.items[s], _plain(self))
    return tx.item(self.items, position(tx, key, len(self.items), "tuple index", "tuple"))


@on_method(TUPLES, "__len__", "", TupleValue)
def _len(tx: Tracer, self: TupleValue) -> Value:
    return Const(len(self.items))


@on_method(TUPLES, "__iter__", "", TupleValue)
def _iter(tx: Tracer, self: TupleValue) -> Value:
    return sequence_iter(tx, type(iter(())), lambda: self.items, self)


@on_method(TUPLES, "__contains__", "key", TupleValue)
def _contains(tx: Tracer, self: TupleValue, key: Value) -> Value:
    return bool_(any(equal(tx, tx.item(self.items, i), key) for i in range(len(self.items))))


@on_method(TUPLES, "count", "value", TupleValue)
def _count(tx: Tracer, self: TupleValue, value: Value) -> Value:
    return Const(sum(equal(tx, x, value) for x in tx.items(self.items)))


@on_method(TUPLES, "index", "value start? stop?", TupleValue)
def _index(tx: Tracer, self: TupleValue, value: Value, start: Value | None, stop: Value | None) -> Value:
    text = "slice indices must be integers or have an __index__ method"
    first = index_of(tx, start, text) if start is not None else 0
    last = index_of(tx, stop, text) if stop is not None else len(self.items)
    for i in range(*slice(first, last).indices(len(self.items))):
        if equal(tx, tx.item(self.items, i), value):
            return Const(i)
    raise tx.throw(ValueError, "tuple.index(x): x not in tuple")


@on_method(TUPLES, "__add__", "value", TupleValue)
def _add(tx: Tracer, self: TupleValue, value: Value) -> Value:
    if not isinstance(value, TupleValue):
        raise tx.throw(TypeError, f'can only concatenate tuple (not "{c_name(value.cls)}") to tuple')
    return TupleValue([*self.items, *value.items], _joined(tx, self, value))


def _joined(tx: Tracer, a: TupleValue, b: TupleValue) -> type:
    """torch.Size + tuple of ints is a torch.Size in versions that define its `__add__`."""
    sized = "__add__" in SIZE.__dict__ and SIZE in (a.cls, b.cls)
    return SIZE if sized and all(isinstance(x, Const) and type(x.value) is int for x in tx.items([*a.items, *b.items])) else tuple


@on_method(SIZE, "__radd__", "value", TupleValue)
def _size_radd(tx: Tracer, self: TupleValue, value: Value) -> Value:
    return _add(tx, value, self) if isinstance(value, TupleValue) else NOT_IMPLEMENTED


@on_method(TUPLES, "__mul__ __rmul__", "value", TupleValue)
def _mul(tx: Tracer, self: TupleValue, value: Value) -> Value:
    return TupleValue(self.items * subscript_of(tx, value, OverflowError), _plain(self))


@on_method(TUPLES, "__getnewargs__", "", TupleValue)
def _getnewargs(tx: Tracer, self: TupleValue) -> Value:
    return TupleValue([TupleValue(list(self.items))])


@on_method(SIZE, "numel", "", TupleValue)
def _numel(tx: Tracer, self: TupleValue) -> Value:
    return Const(math.prod(tx.as_python(x) for x in tx.items(self.items)))


def _comparison(name: str, symbol: str) -> None:
    @on_method(tuple, name, "value", TupleValue)
    def _row(tx: Tracer, self: TupleValue, value: Value) -> Value:
        if not isinstance(value, TupleValue):
            return NOT_IMPLEMENTED
        return compare_sequences(tx, symbol, self.items, value.items)


for _method, _symbol in COMPARISONS.items():
    _comparison(_method, _symbol)


@on_method(tuple, "__hash__", "", TupleValue)
def _hash(tx: Tracer, self: TupleValue) -> Value:
    return Const(hash(tuple(Hashed(hash_(tx, x).value) for x in tx.items(self.items))))


# ---- slice and range --------------------------------------------------------------------------------------


@on_class(slice, "first second? step?")
def _make_slice(tx: Tracer, cls: type, first: Value, second: Value | None, step: Value | None) -> Value:
    return SliceValue([NONE, first, NONE] if second is None else [first, second, step if step is not None else NONE])


for _i, _attribute in enumerate((slice.start, slice.stop, slice.step)):

    @getset(_attribute)
    def _slice_part(tx: Tracer, self: SliceValue, i: int = _i) -> Value:
        return self.parts[i]


@on_method(slice, "indices", "length", SliceValue)
def _indices(tx: Tracer, self: SliceValue, length: Value) -> Value:
    n = index_of(tx, length)
    try:
        parts = slice_of(tx, self).indices(n)
    except ValueError as e:
        raise tx.throw(ValueError, str(e)) from e
    return tx.make_tuple([Const(x) for x in parts])


@on_method(slice, "__eq__", "value", SliceValue)
def _slice_eq(tx: Tracer, self: SliceValue, value: Value) -> Value:
    if not isinstance(value, SliceValue):
        return NOT_IMPLEMENTED
    mine: list[Value | Lazy] = [*self.parts]
    return compare_sequences(tx, "==", mine, [*value.parts])


@on_class(range, "first second? step?")
def _make_range(tx: Tracer, cls: type, *bounds: Value | None) -> Value:
    ints: list[Value] = [Const(index_of(tx, x)) for x in bounds if x is not None]
    made = fold(tx, range, ints, {})
    assert made is not None
    return made


pure(range.count, range.index)
