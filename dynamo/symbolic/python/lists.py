"""list and deque: methods, operators, constructors."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING, lookup
from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.protocols.containers import as_slice, bool_, find_index, index_of, position, size_of, steps, subscript_of
from dynamo.symbolic.protocols.iteration import ask_for_room, iter_, sequence_iter
from dynamo.symbolic.protocols.operators import compare, equal, truth
from dynamo.symbolic.protocols.registry import getset
from dynamo.symbolic.protocols.rows import on_class, on_method
from dynamo.symbolic.python.strings import repr_
from dynamo.symbolic.values.kinds import (
    NONE,
    NOT_IMPLEMENTED,
    Const,
    IterValue,
    Lazy,
    ListValue,
    SliceValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

BOTH = (list, deque)


def _name(v: ListValue) -> str:
    return "list" if issubclass(v.cls, list) else "deque"


# ---- constructors -----------------------------------------------------------------------------------------


@on_class(list, "iterable?")
def _make_list(tx: Tracer, cls: type, iterable: Value | None) -> Value:
    v = ListValue([], cls)
    if iterable is not None:
        extend(tx, v, iterable)
    return v


@on_method(list, "__init__", "iterable?", ListValue)
def _list_init(tx: Tracer, self: ListValue, iterable: Value | None) -> Value:
    tx.touch(self)
    self.items = []
    if iterable is not None:
        extend(tx, self, iterable)
    return NONE


@on_class(deque, "| iterable? maxlen?")
def _make_deque(tx: Tracer, cls: type, iterable: Value | None, maxlen: Value | None) -> Value:
    v = ListValue([], cls)
    _fill_deque(tx, v, iterable, maxlen)
    return v


@on_method(deque, "__init__", "| iterable? maxlen?", ListValue)
def _deque_init(tx: Tracer, self: ListValue, iterable: Value | None, maxlen: Value | None) -> Value:
    _moved(tx, self)
    self.items = []
    _fill_deque(tx, self, iterable, maxlen)
    return NONE


def _fill_deque(tx: Tracer, v: ListValue, iterable: Value | None, maxlen: Value | None) -> None:
    if maxlen is not None and maxlen is not NONE:
        if not issubclass(maxlen.cls, int):
            raise tx.throw(TypeError, "an integer is required")
        v.maxlen = size_of(tx, maxlen)
        if v.maxlen < 0:
            raise tx.throw(ValueError, "maxlen must be non-negative")
    if iterable is not None:
        extend(tx, v, iterable)


@getset(deque.maxlen)
def _maxlen(tx: Tracer, self: ListValue) -> Value:
    return Const(self.maxlen) if self.maxlen is not None else NONE


# ---- adding -----------------------------------------------------------------------------------------------


def extend(tx: Tracer, v: ListValue, iterable: Value) -> None:
    """v.extend(iterable), one item at a time, so that what was taken before an exception stays."""
    has_room = issubclass(v.cls, list)
    if isinstance(iterable, ListValue | TupleValue) and not _own_iter(iterable):
        if has_room:
            ask_for_room(tx, iterable)
        v.items.extend(list(iterable.items))
        v.moves += len(iterable.items)
        _trim(v)
        return
    it = iter_(tx, iterable)
    if has_room:
        ask_for_room(tx, iterable)
    for x in steps(tx, it):
        v.items.append(x)
        v.moves += 1
        _trim(v)


def _own_iter(v: ListValue | TupleValue) -> bool:
    return lookup(v.cls, "__iter__") not in (list.__iter__, tuple.__iter__, deque.__iter__)


def _moved(tx: Tracer, v: ListValue) -> None:
    """Items come, go or change places, which ends the iterators of a deque."""
    tx.touch(v)
    v.moves += 1


def _trim(v: ListValue) -> None:
    if v.maxlen is not None and len(v.items) > v.maxlen:
        del v.items[: len(v.items) - v.maxlen]


@on_method(BOTH, "append", "object", ListValue)
def _append(tx: Tracer, self: ListValue, x: Value) -> Value:
    _moved(tx, self)
    self.append_unread(x)
    if self.maxlen is not None:
        _trim(self)
    return NONE


@on_method(deque, "appendleft", "object", ListValue)
def _appendleft(tx: Tracer, self: ListValue, x: Value) -> Value:
    _moved(tx, self)
    self.items.insert(0, x)
    if self.maxlen is not None and len(self.items) > self.maxlen:
        self.items.pop()
    return NONE


@on_method(BOTH, "extend", "iterable", ListValue)
def _extend(tx: Tracer, self: ListValue, iterable: Value) -> Value:
    tx.touch(self)
    extend(tx, self, iterable)
    return NONE


@on_method(deque, "extendleft", "iterable", ListValue)
def _extendleft(tx: Tracer, self: ListValue, iterable: Value) -> Value:
    for x in list(steps(tx, iter_(tx, iterable))):
        _appendleft(tx, self, x)
    return NONE


@on_method(BOTH, "__iadd__", "value", ListValue)
def _iadd(tx: Tracer, self: ListValue, value: Value) -> Value:
    tx.touch(self)
    extend(tx, self, value)
    return self


@on_method(BOTH, "insert", "index object", ListValue)
def _insert(tx: Tracer, self: ListValue, index: Value, x: Value) -> Value:
    i = size_of(tx, index)
    if self.maxlen is not None and len(self.items) >= self.maxlen:
        raise tx.throw(IndexError, "deque already at its maximum size")
    _moved(tx, self)
    self.items.insert(i, x)
    return NONE


# ---- removing ---------------------------------------------------------------------------------------------


@on_method(list, "pop", "index?", ListValue)
def _pop(tx: Tracer, self: ListValue, index: Value | None) -> Value:
    i = size_of(tx, index) if index is not None else -1
    n = len(self.items)
    if not n:
        raise tx.throw(IndexError, "pop from empty list")
    if not -n <= i < n:
        raise tx.throw(IndexError, "pop index out of range")
    v = tx.item(self.items, i)
    tx.touch(self)
    del self.items[i]
    return v


@on_method(deque, "pop", "", ListValue)
def _deque_pop(tx: Tracer, self: ListValue) -> Value:
    return _take(tx, self, -1)


@on_method(deque, "popleft", "", ListValue)
def _popleft(tx: Tracer, self: ListValue) -> Value:
    return _take(tx, self, 0)


def _take(tx: Tracer, self: ListValue, i: int) -> Value:
    if not self.items:
        raise tx.throw(IndexError, "pop from an empty deque")
    v = tx.item(self.items, i)
    _moved(tx, self)
    del self.items[i]
    return v


@on_method(BOTH, "remove", "value", ListValue)
def _remove(tx: Tracer, self: ListValue, value: Value) -> Value:
    i = find_index(tx, tx.items(self.items), value)
    if i is None:
        raise tx.throw(ValueError, "list.remove(x): x not in list" if issubclass(self.cls, list) else f"{repr_(tx, value)} is not in deque")
    _moved(tx, self)
    del self.items[i]
    return NONE


@on_method(BOTH, "clear", "", ListValue)
def _clear(tx: Tracer, self: ListValue) -> Value:
    _moved(tx, self)
    self.items.clear()
    return NONE


@on_method(BOTH, "__delitem__", "key", ListValue)
def _delitem(tx: Tracer, self: ListValue, key: Value) -> Value:
    s = as_slice(tx, key) if issubclass(self.cls, list) else None
    if s is not None:
        _moved(tx, self)
        del self.items[s]
        return NONE
    what = "list assignment index" if issubclass(self.cls, list) else "deque index"
    i = _position(tx, self, key, what)
    _moved(tx, self)
    del self.items[i]
    return NONE


# ---- reading ----------------------------------------------------------------------------------------------


def _position(tx: Tracer, self: ListValue, key: Value, what: str) -> int:
    if not issubclass(self.cls, list):
        i = subscript_of(tx, key, IndexError, f"sequence index must be integer, not '{c_name(key.cls)}'")
        n = len(self.items)
        if not -n <= i < n:
            raise tx.throw(IndexError, "deque index out of range")
        return i % n
    return position(tx, key, len(self.items), what, "list")


@on_method(BOTH, "__getitem__", "key", ListValue)
def _getitem(tx: Tracer, self: ListValue, key: Value) -> Value:
    s = as_slice(tx, key) if issubclass(self.cls, list) else None
    if s is not None:
        if s.step == 0:
            raise tx.throw(ValueError, "slice step cannot be zero")
        return ListValue(self.items[s])
    return tx.item(self.items, _position(tx, self, key, "list index"))


@on_method(BOTH, "__setitem__", "key value", ListValue)
def _setitem(tx: Tracer, self: ListValue, key: Value, value: Value) -> Value:
    if isinstance(key, SliceValue) and issubclass(self.cls, list):
        return _set_slice(tx, self, key, value)
    i = _position(tx, self, key, "list assignment index")
    tx.touch(self)
    self.items[i] = value
    return NONE


def _set_slice(tx: Tracer, self: ListValue, key: SliceValue, value: Value) -> Value:
    s = as_slice(tx, key)
    assert s is not None
    new: list[Any]
    if isinstance(value, ListValue | TupleValue) and not _own_iter(value):
        new = list(value.items)
    else:
        if tx.lookup(value.cls, "__iter__") is MISSING and tx.lookup(value.cls, "__getitem__") is MISSING:
            raise tx.throw(TypeError, _not_iterable_text(s))
        new = list(steps(tx, iter_(tx, value)))
    try:
        probe = list(range(len(self.items)))
        probe[s] = range(len(new))
    except ValueError as e:
        raise tx.throw(ValueError, str(e)) from e
    tx.touch(self)
    self.items[s] = new
    return NONE


def _not_iterable_text(s: slice) -> str:
    """CPython's complaint, which depends on the version, from the same assignment to another list."""
    probe: Any = [0] * 4
    try:
        probe[s] = object()
    except TypeError as e:
        return str(e)
    raise AssertionError


@on_method(BOTH, "__len__", "", ListValue)
def _len(tx: Tracer, self: ListValue) -> Value:
    return Const(len(self.items))


@on_method(BOTH, "__contains__", "key", ListValue)
def _contains(tx: Tracer, self: ListValue, key: Value) -> Value:
    return bool_(any(equal(tx, x, key) for x in _passed(tx, self)))


@on_method(BOTH, "count", "value", ListValue)
def _count(tx: Tracer, self: ListValue, value: Value) -> Value:
    return Const(sum(equal(tx, x, value) for x in _passed(tx, self)))


def _passed(tx: Tracer, self: ListValue) -> Iterator[Value]:
    """The items as C code passes them, while comparisons of the program may change how many there are: deques refuse that."""
    moves, i = self.moves, 0
    while i < len(self.items):
        yield tx.item(self.items, i)
        if self.moves != moves and not issubclass(self.cls, list):
            raise tx.throw(RuntimeError, _MUTATED)
        i += 1


@on_method(BOTH, "index", "value start? stop?", ListValue)
def _index(tx: Tracer, self: ListValue, value: Value, start: Value | None, stop: Value | None) -> Value:
    text = "slice indices must be integers or have an __index__ method"
    first = index_of(tx, start, text) if start is not None else 0
    last = index_of(tx, stop, text) if stop is not None else len(self.items)
    for i in range(*slice(first, last).indices(len(self.items))):
        if equal(tx, tx.item(self.items, i), value):
            return Const(i)
    raise tx.throw(ValueError, f"{repr_(tx, value)} is not in {_name(self)}")


@on_method(BOTH, "__iter__", "", ListValue)
def _iter(tx: Tracer, self: ListValue) -> Value:
    return sequence_iter(tx, type(iter(_EMPTY[_name(self)])), _items_of(tx, self), self)


def _items_of(tx: Tracer, v: ListValue) -> Callable[[], list[Value | Lazy]]:
    """What an iterator asks for the items at each step."""
    before = v.moves

    def items() -> list[Value | Lazy]:
        if v.moves != before and issubclass(v.cls, deque):
            raise tx.throw(RuntimeError, _MUTATED)
        return v.items

    return items


_MUTATED = "deque mutated during iteration"
_EMPTY: dict[str, Any] = {"list": [], "deque": deque()}


@on_method(BOTH, "__reversed__", "", ListValue)
def _reversed(tx: Tracer, self: ListValue) -> Value:
    return reverse_iter(tx, self, type(reversed(_EMPTY[_name(self)])))


def reverse_iter(tx: Tracer, owner: ListValue | TupleValue, cls: type) -> IterValue:
    at = [len(owner.items) - 1]
    moves = owner.moves if isinstance(owner, ListValue) else 0

    def step() -> Value:
        if at[0] >= 0 and isinstance(owner, ListValue) and owner.moves != moves and issubclass(owner.cls, deque):
            at[0] = -1
            raise tx.throw(RuntimeError, _MUTATED)
        if not 0 <= at[0] < len(owner.items):
            at[0] = -1
            raise StopIteration
        at[0] -= 1
        return tx.item(owner.items, at[0] + 1)

    def rebuild() -> tuple[str, list[Any]]:
        return "values", [tx.item(owner.items, i) for i in range(min(at[0], len(owner.items) - 1), -1, -1)]

    return IterValue(tx, cls, step, rebuild)


# ---- whole-list operations --------------------------------------------------------------------------------


@on_method(BOTH, "copy __copy__", "", ListValue)
def _copy(tx: Tracer, self: ListValue) -> Value:
    v = ListValue(list(self.items), list if issubclass(self.cls, list) else self.cls)
    v.maxlen = self.maxlen
    return v


@on_method(BOTH, "reverse", "", ListValue)
def _reverse(tx: Tracer, self: ListValue) -> Value:
    tx.touch(self)
    self.items.reverse()
    return NONE


@on_method(deque, "rotate", "n?", ListValue)
def _rotate(tx: Tracer, self: ListValue, n: Value | None) -> Value:
    by = size_of(tx, n) if n is not None else 1
    _moved(tx, self)
    turned: deque[Any] = deque(self.items)
    turned.rotate(by)
    self.items[:] = turned
    return NONE


@on_method(list, "sort", "* key? reverse?", ListValue)
def _sort(tx: Tracer, self: ListValue, key: Value | None, reverse: Value | None) -> Value:
    done = sort_values(tx, tx.items(self.items), key, reverse)
    tx.touch(self)
    self.items[:] = done
    return NONE


def sort_values(tx: Tracer, items: list[Value], key: Value | None, reverse: Value | None) -> list[Value]:
    """sorted(items): CPython's own sort over keys that compare with the program's `<`."""
    backwards = reverse is not None and truth(tx, reverse)
    keys = items if key is None or key is NONE else [call(tx, key, [x], {}) for x in items]

    def less(a: tuple[Value, Value], b: tuple[Value, Value]) -> int:
        # list.sort only asks whether the first is less; cmp_to_key turns that into a question about the sign.
        return -1 if truth(tx, compare(tx, "<", a[0], b[0])) else 1

    pairs = list(zip(keys, items, strict=True))
    return [x for _, x in sorted(pairs, key=functools.cmp_to_key(less), reverse=backwards)]


@on_method(BOTH, "__add__", "value", ListValue)
def _add(tx: Tracer, self: ListValue, value: Value) -> Value:
    base = list if issubclass(self.cls, list) else deque
    if not (isinstance(value, ListValue) and issubclass(value.cls, base)):
        shown = c_name(value.cls)
        text = (
            f'can only concatenate list (not "{shown}") to list' if base is list else f'can only concatenate deque (not "{shown}") to deque'
        )
        raise tx.throw(TypeError, text)
    v = ListValue([*self.items, *value.items], list if base is list else self.cls)
    v.maxlen = self.maxlen
    _trim(v)
    return v


@on_method(BOTH, "__mul__ __rmul__", "value", ListValue)
def _mul(tx: Tracer, self: ListValue, value: Value) -> Value:
    v = ListValue(self.items * subscript_of(tx, value, OverflowError), list if issubclass(self.cls, list) else self.cls)
    v.maxlen = self.maxlen
    _trim(v)
    return v


@on_method(BOTH, "__imul__", "value", ListValue)
def _imul(tx: Tracer, self: ListValue, value: Value) -> Value:
    n = subscript_of(tx, value, OverflowError)
    if n == 1:
        tx.touch(self)
    else:
        _moved(tx, self)
    self.items[:] = self.items * n
    _trim(self)
    return self


# ---- comparing --------------------------------------------------------------------------------------------


def compare_sequences(tx: Tracer, symbol: str, a: list[Value | Lazy], b: list[Value | Lazy]) -> Value:
    """`a symbol b` as CPython compares lists and tuples: the first items that differ decide, then the lengths."""
    if len(a) != len(b) and symbol in ("==", "!="):
        return bool_(symbol == "!=")
    for i in range(min(len(a), len(b))):
        x, y = tx.item(a, i), tx.item(b, i)
        if not equal(tx, x, y):
            if symbol in ("==", "!="):
                return bool_(symbol == "!=")
            return compare(tx, symbol, x, y)
    n, m = len(a), len(b)
    return bool_({"<": n < m, "<=": n <= m, "==": n == m, "!=": n != m, ">": n > m, ">=": n >= m}[symbol])


def _comparison(owner: type, name: str, symbol: str) -> None:
    @on_method(owner, name, "value", ListValue)
    def _row(tx: Tracer, self: ListValue, value: Value) -> Value:
        if not (isinstance(value, ListValue) and issubclass(value.cls, owner)):
            return NOT_IMPLEMENTED
        return compare_sequences(tx, symbol, self.items, value.items)


COMPARISONS = {"__lt__": "<", "__le__": "<=", "__eq__": "==", "__ne__": "!=", "__gt__": ">", "__ge__": ">="}
for _owner in BOTH:
    for _method, _symbol in COMPARISONS.items():
        _comparison(_owner, _method, _symbol)
