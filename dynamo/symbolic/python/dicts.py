"""dict, OrderedDict, defaultdict, mapping proxies and the views of their keys, values and items."""

from __future__ import annotations

import collections
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.bytecode import facts
from dynamo.symbolic.protocols.attributes import MISSING, tx_call
from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.protocols.containers import bool_, pairs_of, set_add
from dynamo.symbolic.protocols.iteration import iter_, unpack_iterable
from dynamo.symbolic.protocols.operators import binary, contains, equal, setitem, truth
from dynamo.symbolic.protocols.registry import FUNCTIONS, getset
from dynamo.symbolic.protocols.rows import on_class, on_method
from dynamo.symbolic.protocols.tables import aligned, dict_del, dict_get, dict_has, dict_items, dict_keys, dict_set, guard_keys, key_in
from dynamo.symbolic.python.lists import COMPARISONS
from dynamo.symbolic.python.sets import compare_tables
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    NONE,
    NOT_IMPLEMENTED,
    ClassValue,
    Const,
    DictValue,
    DictViewValue,
    FunctionValue,
    IterValue,
    SetValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

PROXY = types.MappingProxyType
DICTS = (dict, OrderedDict, defaultdict)
ALL = (dict, OrderedDict, defaultdict, PROXY)


# ---- constructors -----------------------------------------------------------------------------------------


@on_class(dict, "mapping? **")
def _make_dict(tx: Tracer, cls: type, mapping: Value | None, kwargs: dict[str, Value]) -> Value:
    d = DictValue(cls)
    update(tx, d, mapping, kwargs)
    return d


@on_class(OrderedDict, "mapping? **")
def _make_ordered(tx: Tracer, cls: type, mapping: Value | None, kwargs: dict[str, Value]) -> Value:
    return _make_dict(tx, cls, mapping, kwargs)


@on_class(defaultdict, "factory? mapping? **")
def _make_defaultdict(tx: Tracer, cls: type, factory: Value | None, mapping: Value | None, kwargs: dict[str, Value]) -> Value:
    d = DictValue(cls)
    _init_defaultdict(tx, d, factory, mapping, kwargs)
    return d


@on_method(defaultdict, "__init__", "factory? mapping? **", DictValue)
def _init_defaultdict(tx: Tracer, self: DictValue, factory: Value | None, mapping: Value | None, kwargs: dict[str, Value]) -> Value:
    none = factory is None or (isinstance(factory, Const) and factory.value is None)
    if factory is not None and not none and tx.lookup(factory.cls, "__call__") is MISSING:
        raise tx.throw(TypeError, "first argument must be callable or None")
    self.default_factory = None if none else factory
    update(tx, self, mapping, kwargs)
    return NONE


@on_method((dict, OrderedDict), "__init__", "mapping? **", DictValue)
def _init(tx: Tracer, self: DictValue, mapping: Value | None, kwargs: dict[str, Value]) -> Value:
    update(tx, self, mapping, kwargs)
    return NONE


@on_class(PROXY, "mapping")
def _make_proxy(tx: Tracer, cls: type, mapping: Value) -> Value:
    if not isinstance(mapping, DictValue):
        raise tx.break_("DD005", f"mappingproxy of {mapping.describe()}")
    v = DictValue(PROXY)
    v.base = mapping.base or mapping
    return v


def fromkeys(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """dict.fromkeys and OrderedDict.fromkeys, with the class as first argument."""
    if kwargs or not 2 <= len(args) <= 3 or not isinstance(args[0], ClassValue):
        raise tx.throw(TypeError, f"fromkeys expected at least 1 argument, got {len(args) - 1}")
    value = args[2] if len(args) > 2 else NONE
    d = call(tx, args[0], [], {})
    for k in unpack_iterable(tx, args[1]):
        setitem(tx, d, k, value)
    return d


FUNCTIONS.add(*(cls.__dict__["fromkeys"] for cls in (dict, OrderedDict)))(fromkeys)


@getset(defaultdict.__dict__["default_factory"])
def _default_factory(tx: Tracer, self: DictValue) -> Value:
    return self.default_factory if self.default_factory is not None else NONE


# ---- items ------------------------------------------------------------------------------------------------


@on_method(ALL, "__getitem__", "key", DictValue)
def _getitem(tx: Tracer, self: DictValue, key: Value) -> Value:
    v = dict_get(tx, self, key)
    if v is not None:
        return v
    missing = tx.lookup(self.cls, "__missing__") if self.cls is not dict else MISSING
    if type(missing) is types.FunctionType:
        return tx_call(tx, FunctionValue(missing), [self, key])
    if missing is not MISSING:
        return _missing(tx, self, key)
    raise tx.throw(KeyError, key)


@on_method(defaultdict, "__missing__", "key", DictValue)
def _missing(tx: Tracer, self: DictValue, key: Value) -> Value:
    if self.default_factory is None:
        raise tx.throw(KeyError, key)
    v = call(tx, self.default_factory, [], {})
    dict_set(tx, self, key, v)
    return v


@on_method(DICTS, "__setitem__", "key value", DictValue)
def _setitem(tx: Tracer, self: DictValue, key: Value, value: Value) -> Value:
    dict_set(tx, self, key, value)
    return NONE


@on_method(DICTS, "__delitem__", "key", DictValue)
def _delitem(tx: Tracer, self: DictValue, key: Value) -> Value:
    if dict_del(tx, self, key) is None:
        raise tx.throw(KeyError, key)
    return NONE


@on_method(ALL, "__contains__", "key", DictValue)
def _contains(tx: Tracer, self: DictValue, key: Value) -> Value:
    return bool_(dict_has(tx, self, key))


@on_method(ALL, "__len__", "", DictValue)
def _len(tx: Tracer, self: DictValue) -> Value:
    guard_keys(tx, self)
    return Const(len(self.table))


@on_method(ALL, "get", "key default?", DictValue)
def _get(tx: Tracer, self: DictValue, key: Value, default: Value | None) -> Value:
    v = dict_get(tx, self, key)
    return v if v is not None else default if default is not None else NONE


@on_method(dict, "setdefault", "key default?", DictValue)
def _setdefault(tx: Tracer, self: DictValue, key: Value, default: Value | None) -> Value:
    v = dict_get(tx, self, key)
    if v is None:
        v = default if default is not None else NONE
        dict_set(tx, self, key, v)
    return v


@on_method(OrderedDict, "setdefault", "| key default?", DictValue)
def _ordered_setdefault(tx: Tracer, self: DictValue, key: Value, default: Value | None) -> Value:
    return _setdefault(tx, self, key, default)


@on_method(dict, "pop", "key default?", DictValue)
def _pop(tx: Tracer, self: DictValue, key: Value, default: Value | None) -> Value:
    v = dict_del(tx, self, key)
    if v is None:
        if default is None:
            raise tx.throw(KeyError, key)
        return default
    return v


@on_method(OrderedDict, "pop", "| key default?", DictValue)
def _ordered_pop(tx: Tracer, self: DictValue, key: Value, default: Value | None) -> Value:
    if default is None and not dict_has(tx, self, key):
        raise _no_key(tx, key)
    return _pop(tx, self, key, default)


def _no_key(tx: Tracer, key: Value) -> Raised:
    """An error set with a key (PyErr_SetObject) takes a tuple for all its arguments, and None for having none."""
    if isinstance(key, TupleValue) and issubclass(key.cls, tuple):
        return tx.throw(KeyError, *tx.items(key.items))
    return tx.throw(KeyError, *([] if isinstance(key, Const) and key.value is None else [key]))


@on_method(dict, "popitem", "", DictValue)
def _popitem(tx: Tracer, self: DictValue) -> Value:
    return _take(tx, self, -1, "popitem(): dictionary is empty")


@on_method(OrderedDict, "popitem", "| last?", DictValue)
def _ordered_popitem(tx: Tracer, self: DictValue, last: Value | None) -> Value:
    return _take(tx, self, -1 if last is None or truth(tx, last) else 0, "dictionary is empty")


def _take(tx: Tracer, self: DictValue, at: int, complaint: str) -> Value:
    guard_keys(tx, self)
    if not self.table:
        raise tx.throw(KeyError, complaint)
    key, _ = self.table[list(self.table)[at]]
    v = dict_del(tx, self, key)
    assert v is not None
    return tx.make_tuple([key, v])


@on_method(OrderedDict, "move_to_end", "| key last?", DictValue)
def _move_to_end(tx: Tracer, self: DictValue, key: Value, last: Value | None) -> Value:
    k = key_in(tx, key, self.table)
    if not dict_has(tx, self, key):
        raise _no_key(tx, key)
    guard_keys(tx, self)
    to_end = last is None or truth(tx, last)
    tx.touch(self)
    self.moves += next(reversed(self.table) if to_end else iter(self.table)) != k
    entry = self.table.pop(k)
    rest = dict(self.table)
    self.table.clear()
    self.table.update({**rest, k: entry} if to_end else {k: entry, **rest})
    return NONE


@on_method(DICTS, "clear", "", DictValue)
def _clear(tx: Tracer, self: DictValue) -> Value:
    guard_keys(tx, self)
    tx.touch(self)
    self.table.clear()
    self.moves += facts.CLEARED_IS_MUTATED or not issubclass(self.cls, OrderedDict)
    return NONE


def update(tx: Tracer, d: DictValue, other: Value | None, kwargs: dict[str, Value]) -> None:
    """d.update(other, **kwargs). Subclasses of OrderedDict go through their own `__setitem__`, as in CPython."""
    python_set = type(tx.lookup(d.cls, "__setitem__")) is types.FunctionType and issubclass(d.cls, OrderedDict)
    pairs = pairs_of(tx, other, issubclass(d.cls, OrderedDict)) if other is not None else []
    for k, v in [*pairs, *((Const(n), v) for n, v in kwargs.items())]:
        if python_set:
            setitem(tx, d, k, v)
        else:
            dict_set(tx, d, k, v)


@on_method(DICTS, "update", "other? **", DictValue)
def _update(tx: Tracer, self: DictValue, other: Value | None, kwargs: dict[str, Value]) -> Value:
    update(tx, self, other, kwargs)
    return NONE


def copy_dict(tx: Tracer, d: DictValue, cls: type) -> DictValue:
    guard_keys(tx, d)
    v = DictValue(cls)
    v.table = dict(d.table)
    v.default_factory = d.default_factory
    return v


@on_method(ALL, "copy __copy__", "", DictValue)
def _copy(tx: Tracer, self: DictValue) -> Value:
    return same_kind(tx, self)


def same_kind(tx: Tracer, d: DictValue) -> DictValue:
    """d.copy(): OrderedDict and defaultdict call their subclasses to make the copy, dict gives a plain one."""
    if d.cls in (OrderedDict, defaultdict) or not issubclass(d.cls, OrderedDict | defaultdict):
        return copy_dict(tx, d, d.cls if issubclass(d.cls, OrderedDict | defaultdict) else dict)
    if issubclass(d.cls, OrderedDict):
        made = call(tx, tx.wrap(d.cls, None), [], {})
        for k, v in dict_items(tx, d):
            setitem(tx, made, k, v)
    else:
        made = call(tx, tx.wrap(d.cls, None), [_default_factory(tx, d), d], {})
    if not isinstance(made, DictValue):
        raise tx.break_("DD005", f"copy of {d.describe()}")
    return made


# ---- operators --------------------------------------------------------------------------------------------


@on_method(ALL, "__or__", "value", DictValue)
def _or(tx: Tracer, self: DictValue, value: Value) -> Value:
    if not isinstance(value, DictValue):
        return NOT_IMPLEMENTED
    d = same_kind(tx, self)
    for k, v in dict_items(tx, value):
        dict_set(tx, d, k, v)
    return d


@on_method(ALL, "__ror__", "value", DictValue)
def _ror(tx: Tracer, self: DictValue, value: Value) -> Value:
    if not isinstance(value, DictValue):
        return NOT_IMPLEMENTED
    d = copy_dict(tx, value, self.cls if issubclass(self.cls, OrderedDict | defaultdict) else dict)
    d.default_factory = self.default_factory
    for k, v in dict_items(tx, self):
        dict_set(tx, d, k, v)
    return d


@on_method((dict, OrderedDict), "__ior__", "value", DictValue)
def _ior(tx: Tracer, self: DictValue, value: Value) -> Value:
    update(tx, self, value, {})
    return self


def _equality(owner: type, name: str, wanted: bool) -> None:
    @on_method(owner, name, "value", DictValue)
    def _row(tx: Tracer, self: DictValue, value: Value) -> Value:
        if not isinstance(value, DictValue):
            return NOT_IMPLEMENTED
        return bool_(_same(tx, self, value) is wanted)


for _owner in ALL:
    _equality(_owner, "__eq__", True)
    _equality(_owner, "__ne__", False)


def _same(tx: Tracer, a: DictValue, b: DictValue) -> bool:
    guard_keys(tx, a)
    guard_keys(tx, b)
    if len(a.table) != len(b.table):
        return False
    if issubclass(a.cls, OrderedDict) and issubclass(b.cls, OrderedDict):
        theirs = aligned(tx, dict(zip(a.table, dict_keys(tx, a), strict=True)), dict(zip(b.table, dict_keys(tx, b), strict=True)))
        if list(a.table) != list(theirs):
            return False
    for k, x in dict_items(tx, a):
        y = dict_get(tx, b, k)
        if y is None or not equal(tx, x, y):
            return False
    return True


# ---- iteration and views ----------------------------------------------------------------------------------


def dict_iter(tx: Tracer, d: DictValue, what: str, cls: type, backwards: bool = False) -> IterValue:
    """An iterator over the keys, values or items, which notices changes of the dict as CPython's do."""
    guard_keys(tx, d)
    d = d.base or d
    walk = (_OrderedWalk if issubclass(d.cls, OrderedDict) else _Walk)(tx, d, backwards)
    return IterValue(tx, cls, lambda: _entry(tx, d, walk.next(), what), lambda: ("values", [_entry(tx, d, k, what) for k in walk.rest()]))


class _Walk:
    """The place of an iterator in a dict's table, where a key that comes is last and one that goes leaves a gap."""

    def __init__(self, tx: Tracer, d: DictValue, backwards: bool) -> None:
        self.tx, self.d, self.backwards = tx, d, backwards
        self.places: list[Any] = list(d.table)
        self.moves, self.size = d.moves, len(self.places)
        self.left = self.size  # keys that it may still give
        self.at = self.size if backwards else 0
        self.is_done = False

    def next(self) -> Any:
        if self.is_done:
            raise StopIteration
        self.check()
        found = self.found()
        if found < 0:
            self.is_done = True
            raise StopIteration
        if not self.left:
            self.is_done = True
            raise self.tx.throw(RuntimeError, "dictionary keys changed during iteration")
        self.left -= not self.backwards
        self.at = found + (not self.backwards)
        return self.places[found]

    def found(self) -> int:
        """Where the next key is, or -1."""
        order = range(self.at - 1, -1, -1) if self.backwards else range(self.at, len(self.places))
        return next((i for i in order if self.places[i] is not _GAP), -1)

    def rest(self) -> list[Any]:
        if self.is_done:
            return []
        found = self.places[: self.at][::-1] if self.backwards else self.places[self.at :]
        return [k for k in found if k is not _GAP]

    def check(self) -> None:
        if len(self.d.table) != self.size:
            self.size = -1
            raise self.tx.throw(RuntimeError, "dictionary changed size during iteration")
        if self.d.moves != self.moves:
            self.moves = self.d.moves
            self.places = _moved_places(self.places, list(self.d.table))


class _OrderedWalk(_Walk):
    def check(self) -> None:
        if self.found() < 0:
            return
        if self.d.moves != self.moves:
            self.is_done = True
            raise self.tx.throw(RuntimeError, "OrderedDict mutated during iteration")
        if not self.d.table:
            raise self.tx.throw(RuntimeError, "OrderedDict changed size during iteration")


_GAP = object()


def _moved_places(places: list[Any], keys: list[Any]) -> list[Any]:
    """The table after changes that left `keys`: the first of them are where they were, the others came."""
    moved, at = [], 0
    for k in places:
        stays = at < len(keys) and keys[at] == k
        moved.append(k if stays else _GAP)
        at += stays
    return moved + keys[at:]


def _entry(tx: Tracer, d: DictValue, k: Any, what: str) -> Value:
    if k not in d.table:
        raise tx.throw(RuntimeError, "dictionary keys changed during iteration")
    key, child = d.table[k]
    if what == "keys":
        return key
    v = tx.realize(child)
    d.table[k] = (key, v)
    return v if what == "values" else tx.make_tuple([key, v])


def _view_class(d: DictValue, what: str) -> type:
    empty: dict[Any, Any] = OrderedDict() if issubclass(d.cls, OrderedDict) else {}
    return type(getattr(empty, what)())


def view(tx: Tracer, d: DictValue, what: str) -> DictViewValue:
    v = DictViewValue(d, what)
    v.cls = _view_class(d, what)
    return v


def _view_method(what: str) -> None:
    @on_method(ALL, what, "", DictValue)
    def _row(tx: Tracer, self: DictValue) -> Value:
        return view(tx, self, what)


for _what in ("keys", "values", "items"):
    _view_method(_what)


def _iterator_class(d: DictValue, what: str, backwards: bool) -> type:
    empty: dict[Any, Any] = OrderedDict() if issubclass(d.cls, OrderedDict) else {}
    v: Any = getattr(empty, what)()
    return type(reversed(v) if backwards else iter(v))


@on_method(ALL, "__iter__", "", DictValue)
def _iter(tx: Tracer, self: DictValue) -> Value:
    return dict_iter(tx, self, "keys", _iterator_class(self, "keys", False))


@on_method(ALL, "__reversed__", "", DictValue)
def _reversed(tx: Tracer, self: DictValue) -> Value:
    return dict_iter(tx, self, "keys", _iterator_class(self, "keys", True), True)


_EMPTY: tuple[dict[Any, Any], ...] = ({}, OrderedDict())
_VIEWS = tuple(type(getattr(d, w)()) for d in _EMPTY for w in ("keys", "values", "items"))
_SETS = tuple(c for c in _VIEWS if "values" not in c.__name__)


@on_method(_VIEWS, "__iter__", "", DictViewValue)
def _view_iter(tx: Tracer, self: DictViewValue) -> Value:
    return dict_iter(tx, self.base, self.what, _iterator_class(self.base, self.what, False))


@on_method(_VIEWS, "__reversed__", "", DictViewValue)
def _view_reversed(tx: Tracer, self: DictViewValue) -> Value:
    return dict_iter(tx, self.base, self.what, _iterator_class(self.base, self.what, True), True)


@on_method(_VIEWS, "__len__", "", DictViewValue)
def _view_len(tx: Tracer, self: DictViewValue) -> Value:
    return _len(tx, self.base)


@on_method(_SETS, "__contains__", "key", DictViewValue)
def _view_contains(tx: Tracer, self: DictViewValue, key: Value) -> Value:
    if self.what == "keys":
        return bool_(dict_has(tx, self.base, key))
    if not isinstance(key, TupleValue) or len(key.items) != 2:
        return bool_(False)
    k, x = tx.items(key.items)
    found = dict_get(tx, self.base, k)
    return bool_(found is not None and equal(tx, found, x))


def view_set(tx: Tracer, v: DictViewValue) -> SetValue:
    """The view as a set."""
    s = SetValue()
    for x in dict_keys(tx, v.base) if v.what == "keys" else [tx.make_tuple([k, x]) for k, x in dict_items(tx, v.base)]:
        set_add(tx, s, x)
    return s


Table = dict[Any, Value]


def _set_operator(name: str, combine: Callable[[Table, Table, bool], Table]) -> None:
    @on_method(_SETS, name, "value", DictViewValue)
    def _row(tx: Tracer, self: DictViewValue, value: Value) -> Value:
        other = SetValue()
        for x in unpack_iterable(tx, value):
            set_add(tx, other, x)
        out = SetValue()
        own = view_set(tx, self).table
        out.table = combine(own, aligned(tx, own, other.table), isinstance(value, SetValue | DictViewValue))
        return out


def _common(own: Table, other: Table, is_set: bool) -> Table:
    """CPython goes through the other operand, whatever side it is on, or through the view if that is the smaller of two sets."""
    first, second = (own, other) if is_set and len(own) <= len(other) else (other, own)
    return {k: v for k, v in first.items() if k in second}


# Who comes first decides in which order the result has items whose hashes collide.
_set_operator("__and__", _common)
_set_operator("__rand__", _common)
_set_operator("__or__", lambda a, b, _: a | {k: v for k, v in b.items() if k not in a})
_set_operator("__ror__", lambda a, b, _: b | {k: v for k, v in a.items() if k not in b})
_set_operator("__sub__", lambda a, b, _: {k: v for k, v in a.items() if k not in b})
_set_operator("__rsub__", lambda a, b, _: {k: v for k, v in b.items() if k not in a})
_set_operator("__xor__", lambda a, b, _: {k: v for k, v in [*a.items(), *b.items()] if (k in a) != (k in b)})
_set_operator("__rxor__", lambda a, b, _: {k: v for k, v in [*b.items(), *a.items()] if (k in a) != (k in b)})


@on_method(_SETS, "isdisjoint", "other", DictViewValue)
def _isdisjoint(tx: Tracer, self: DictViewValue, other: Value) -> Value:
    return bool_(not any(contains(tx, self, x) for x in unpack_iterable(tx, other)))


def _view_comparison(name: str, symbol: str) -> None:
    @on_method(_SETS, name, "value", DictViewValue)
    def _row(tx: Tracer, self: DictViewValue, value: Value) -> Value:
        if not isinstance(value, DictViewValue | SetValue) or (isinstance(value, DictViewValue) and value.what == "values"):
            return NOT_IMPLEMENTED
        if symbol in ("==", "!=") and self.what == "items":
            n = len(tx.items(list(unpack_iterable(tx, value))))
            same = n == len(self.base.table) and all(contains(tx, self, x) for x in unpack_iterable(tx, value))
            return bool_(same is (symbol == "=="))
        other = view_set(tx, value) if isinstance(value, DictViewValue) else value
        return bool_(compare_tables(tx, symbol, view_set(tx, self).table, other.table))


for _method, _symbol in COMPARISONS.items():
    _view_comparison(_method, _symbol)


@on_method(dict, "__class_getitem__", "key")
def _class_getitem(tx: Tracer, self: Value, key: Value) -> Value:
    return self


def count_elements(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """collections._count_elements, the C loop of Counter."""
    mapping, iterable = args
    assert isinstance(mapping, DictValue)
    for x in unpack_iterable(tx, iter_(tx, iterable)):
        old = dict_get(tx, mapping, x)
        dict_set(tx, mapping, x, binary(tx, "+", old if old is not None else Const(0), Const(1)))
    return NONE


FUNCTIONS.add(collections._count_elements)(count_elements)  # type: ignore[attr-defined]  # private, absent from the stubs
