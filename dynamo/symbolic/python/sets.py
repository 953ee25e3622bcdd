"""set and frozenset: constructors, methods, operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.symbolic.protocols.containers import bool_, ordered, set_add
from dynamo.symbolic.protocols.hashing import Hashed, hash_
from dynamo.symbolic.protocols.iteration import unpack_iterable
from dynamo.symbolic.protocols.rows import on_class, on_method
from dynamo.symbolic.protocols.tables import aligned, key_in
from dynamo.symbolic.python.lists import COMPARISONS
from dynamo.symbolic.values.kinds import NONE, NOT_IMPLEMENTED, Const, IterValue, SetValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

SETS = (set, frozenset)
Items = dict[Any, Value]


def table_of(tx: Tracer, v: Value) -> Items:
    """The items of any iterable under their hash keys."""
    if isinstance(v, SetValue):
        return v.table
    s = SetValue()
    for x in unpack_iterable(tx, v):
        set_add(tx, s, x)
    return s.table


def compare_tables(tx: Tracer, symbol: str, a: Items, b: Items) -> bool:
    x, y = set(a), set(aligned(tx, a, b))
    return {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y, ">": x > y, ">=": x >= y}[symbol]


def _new(table: Items, like: SetValue) -> SetValue:
    v = SetValue(frozenset if issubclass(like.cls, frozenset) else set)
    v.table = table
    return v


@on_class(set, "iterable?")
def _make_set(tx: Tracer, cls: type, iterable: Value | None) -> Value:
    v = SetValue(cls)
    if iterable is not None:
        v.table = dict(table_of(tx, iterable))
    return v


@on_class(frozenset, "iterable?")
def _make_frozenset(tx: Tracer, cls: type, iterable: Value | None) -> Value:
    if cls is frozenset and isinstance(iterable, SetValue) and iterable.cls is frozenset:
        return iterable
    return _make_set(tx, cls, iterable)


@on_method(set, "__init__", "iterable?", SetValue)
def _init(tx: Tracer, self: SetValue, iterable: Value | None) -> Value:
    table = dict(table_of(tx, iterable)) if iterable is not None else {}
    tx.touch(self)
    self.table = table
    return NONE


# ---- one item ---------------------------------------------------------------------------------------------


@on_method(set, "add", "object", SetValue)
def _add(tx: Tracer, self: SetValue, x: Value) -> Value:
    key = key_in(tx, x, self.table)
    if key not in self.table:
        tx.touch(self)
        self.table[key] = x
    return NONE


@on_method(set, "discard", "object", SetValue)
def _discard(tx: Tracer, self: SetValue, x: Value) -> Value:
    key = _key(tx, self, x)
    if key in self.table:
        tx.touch(self)
        del self.table[key]
    return NONE


@on_method(set, "remove", "object", SetValue)
def _remove(tx: Tracer, self: SetValue, x: Value) -> Value:
    key = _key(tx, self, x)
    if key not in self.table:
        raise tx.throw(KeyError, x)
    tx.touch(self)
    del self.table[key]
    return NONE


@on_method(set, "pop", "", SetValue)
def _pop(tx: Tracer, self: SetValue) -> Value:
    if not self.table:
        raise tx.throw(KeyError, "pop from an empty set")
    if len(self.table) > 1:
        raise tx.break_("DD005", "set.pop() of a set with several items", "the order of a set is known only at run time; pop from a list.")
    tx.touch(self)
    return self.table.pop(next(iter(self.table)))


@on_method(SETS, "__contains__", "key", SetValue)
def _contains(tx: Tracer, self: SetValue, key: Value) -> Value:
    return bool_(_key(tx, self, key) in self.table)


def _key(tx: Tracer, self: SetValue, x: Value) -> Any:
    """What an item is looked up by: sets, which have no hash, count as frozen ones."""
    return frozenset(x.table) if isinstance(x, SetValue) and issubclass(x.cls, set) else key_in(tx, x, self.table)


@on_method(SETS, "__len__", "", SetValue)
def _len(tx: Tracer, self: SetValue) -> Value:
    return Const(len(self.table))


@on_method(SETS, "__iter__", "", SetValue)
def _iter(tx: Tracer, self: SetValue) -> Value:
    rest = ordered(tx, self)
    rest.reverse()
    size = [len(rest)]
    done = [False]

    def step() -> Value:
        if len(self.table) != size[0] and not done[0]:
            size[0] = -1
            raise tx.throw(RuntimeError, "Set changed size during iteration")
        if not rest:
            done[0] = True
            raise StopIteration
        return rest.pop()

    return IterValue(tx, type(iter(set())), step, lambda: ("values", list(reversed(rest))))


@on_method(set, "clear", "", SetValue)
def _clear(tx: Tracer, self: SetValue) -> Value:
    tx.touch(self)
    self.table.clear()
    return NONE


@on_method(SETS, "copy __copy__", "", SetValue)
def _copy(tx: Tracer, self: SetValue) -> Value:
    v = SetValue(self.cls)
    v.table = dict(self.table)
    return v


# ---- combining --------------------------------------------------------------------------------------------


# Who comes first decides in which order the result has items whose hashes collide.
def _union(a: Items, b: Items) -> Items:
    return a | {k: v for k, v in b.items() if k not in a}


def _intersection(a: Items, b: Items) -> Items:
    first, second = (b, a) if len(b) <= len(a) else (a, b)
    return {k: v for k, v in first.items() if k in second}


def _difference(a: Items, b: Items) -> Items:
    return {k: v for k, v in a.items() if k not in b}


def _symmetric(a: Items, b: Items) -> Items:
    return {**_difference(b, a), **_difference(a, b)}


def _symmetric_update(a: Items, b: Items) -> Items:
    return {**_difference(a, b), **_difference(b, a)}


Combine = Callable[[Items, Items], Items]
# combination -> (method, operator, reflected operator, updating method, in-place operator)
_COMBINATIONS: dict[Combine, tuple[str, str, str, str, str]] = {
    _union: ("union", "__or__", "__ror__", "update", "__ior__"),
    _intersection: ("intersection", "__and__", "__rand__", "intersection_update", "__iand__"),
    _difference: ("difference", "__sub__", "__rsub__", "difference_update", "__isub__"),
    _symmetric: ("symmetric_difference", "__xor__", "__rxor__", "symmetric_difference_update", "__ixor__"),
}


def _rows(combine: Combine, names: tuple[str, str, str, str, str]) -> None:
    named, operator, reflected, updating, inplace = names
    params = "other" if combine is _symmetric else "*others"
    update = _symmetric_update if combine is _symmetric else combine

    def result(tx: Tracer, self: SetValue, others: list[Value], combine: Combine = combine) -> Items:
        table = self.table
        for other in others:
            table = combine(table, aligned(tx, table, table_of(tx, other)))
        return dict(table)

    @on_method(SETS, named, params, SetValue)
    def _named(tx: Tracer, self: SetValue, others: Any) -> Value:
        return _new(result(tx, self, others if isinstance(others, list) else [others]), self)

    @on_method(set, updating, params, SetValue)
    def _updating(tx: Tracer, self: SetValue, others: Any) -> Value:
        table = result(tx, self, others if isinstance(others, list) else [others], update)
        tx.touch(self)
        self.table = table
        return NONE

    @on_method(SETS, operator, "value", SetValue)
    def _operator(tx: Tracer, self: SetValue, value: Value) -> Value:
        return _new(combine(self.table, aligned(tx, self.table, value.table)), self) if isinstance(value, SetValue) else NOT_IMPLEMENTED

    @on_method(SETS, reflected, "value", SetValue)
    def _reflected(tx: Tracer, self: SetValue, value: Value) -> Value:
        return _new(combine(value.table, aligned(tx, value.table, self.table)), value) if isinstance(value, SetValue) else NOT_IMPLEMENTED

    @on_method(set, inplace, "value", SetValue)
    def _inplace(tx: Tracer, self: SetValue, value: Value) -> Value:
        if not isinstance(value, SetValue):  # views of dicts make another set
            return NOT_IMPLEMENTED
        table = update(self.table, aligned(tx, self.table, table_of(tx, value)))
        tx.touch(self)
        self.table = table
        return self


for _combine, _names in _COMBINATIONS.items():
    _rows(_combine, _names)


# ---- comparing --------------------------------------------------------------------------------------------


def _comparison(name: str, symbol: str) -> None:
    @on_method(SETS, name, "value", SetValue)
    def _row(tx: Tracer, self: SetValue, value: Value) -> Value:
        if isinstance(value, SetValue):
            return bool_(compare_tables(tx, symbol, self.table, value.table))
        return NOT_IMPLEMENTED


for _method, _symbol in COMPARISONS.items():
    _comparison(_method, _symbol)


@on_method(SETS, "issubset", "other", SetValue)
def _issubset(tx: Tracer, self: SetValue, other: Value) -> Value:
    return bool_(compare_tables(tx, "<=", self.table, table_of(tx, other)))


@on_method(SETS, "issuperset", "other", SetValue)
def _issuperset(tx: Tracer, self: SetValue, other: Value) -> Value:
    return bool_(compare_tables(tx, ">=", self.table, table_of(tx, other)))


@on_method(SETS, "isdisjoint", "other", SetValue)
def _isdisjoint(tx: Tracer, self: SetValue, other: Value) -> Value:
    return bool_(not set(self.table) & set(aligned(tx, self.table, table_of(tx, other))))


@on_method(frozenset, "__hash__", "", SetValue)
def _hash(tx: Tracer, self: SetValue) -> Value:
    return Const(hash(frozenset(Hashed(hash_(tx, x).value) for x in self.table.values())))
