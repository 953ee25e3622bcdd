"""functools: partial, reduce, caches, cmp_to_key."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import MISSING, getattr_, tx_call
from dynamo.symbolic.protocols.containers import is_iterable
from dynamo.symbolic.protocols.registry import code_row, getset, nested_code
from dynamo.symbolic.protocols.rows import inlined, on_class, on_function, on_method
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.values.kinds import NONE, ClassValue, Const, FunctionValue, MethodValue, PartialValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


@on_class(functools.partial, "func *args **")
def _partial(tx: Tracer, cls: type, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if isinstance(fn, PartialValue):
        return PartialValue(cls, fn.fn, [*fn.args, *args], {**fn.kwargs, **kwargs})
    if tx.lookup(fn.cls, "__call__") is MISSING:
        raise tx.throw(TypeError, "the first argument must be callable")
    return PartialValue(cls, fn, args, kwargs)


@getset(functools.partial.func)
def _func(tx: Tracer, self: PartialValue) -> Value:
    return self.fn


@getset(functools.partial.args)
def _args(tx: Tracer, self: PartialValue) -> Value:
    return tx.make_tuple(self.args)


@getset(functools.partial.keywords)
def _keywords(tx: Tracer, self: PartialValue) -> Value:
    return self.keywords


@on_method(functools.partial, "__call__", "*args **", PartialValue)
def _call_partial(tx: Tracer, self: PartialValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx_call(tx, self, args, kwargs)


@on_function(functools.reduce, "function iterable initial?")
def _reduce(tx: Tracer, fn: Value, iterable: Value, initial: Value | None) -> Value:
    if not is_iterable(iterable):
        raise tx.throw(TypeError, "reduce() arg 2 must support iteration")
    return inlined(tx, polyfills.reduce, [fn, iterable, *([initial] if initial is not None else [])])


# ---- caches -----------------------------------------------------------------------------------------------

_CACHED: Any = functools._lru_cache_wrapper


@on_method(_CACHED, "__call__", "*args **")
def _call_cached(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The function behind the cache: a cache of a pure function makes no difference, and filling it is not an effect to replay.

    A function that changes something does so once per key: only the real cache knows which keys it has.
    """
    obj = getattr(self, "obj", None)
    inner = getattr(obj, "__wrapped__", None)
    if inner is None:
        raise tx.break_("DD005", self.describe())
    before = tx.effects.changes
    result = tx_call(tx, tx.wrap(inner, const_source(inner, getattr(inner, "__qualname__", "cached"))), args, kwargs)
    if tx.effects.changes != before:
        raise tx.break_("DD005", f"{self.describe()}, a cache of a function with effects")
    return result


@on_method(_CACHED, "__get__", "instance owner?")
def _bind_cached(tx: Tracer, self: Value, instance: Value, owner: Value | None) -> Value:
    return self if isinstance(instance, Const) and instance.value is None else MethodValue(self, instance)


# ---- cmp_to_key -------------------------------------------------------------------------------------------


class _Compared:
    """The class of the keys that cmp_to_key makes, with the comparison as an attribute."""

    __slots__ = ("mycmp", "obj")

    mycmp: Any
    obj: Any

    def __lt__(self, other: _Compared) -> Any:
        return self.mycmp(self.obj, other.obj) < 0

    def __gt__(self, other: _Compared) -> Any:
        return self.mycmp(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> Any:
        return self.mycmp(self.obj, other.obj) == 0  # type: ignore[attr-defined]  # another key

    def __le__(self, other: _Compared) -> Any:
        return self.mycmp(self.obj, other.obj) <= 0

    def __ge__(self, other: _Compared) -> Any:
        return self.mycmp(self.obj, other.obj) >= 0

    __hash__ = None  # type: ignore[assignment]  # as in functools


def _make_key(mycmp: Any, obj: Any) -> _Compared:
    key = _Compared()
    key.mycmp = mycmp
    key.obj = obj
    return key


_KEY_MAKER: Any = _make_key


@on_function(functools.cmp_to_key, "| mycmp")
def _cmp_to_key(tx: Tracer, mycmp: Value) -> Value:
    return PartialValue(functools.partial, FunctionValue(_KEY_MAKER), [mycmp], {})


# ---- singledispatch ---------------------------------------------------------------------------------------


@code_row(nested_code(functools.singledispatch.__code__, "wrapper"))
def _singledispatch(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The implementation for the class of the first argument."""
    dispatch = getattr(fn.obj, "dispatch", None)
    if dispatch is None or not args:
        return None
    return tx_call(tx, _chosen(tx, dispatch, args[0].cls), args, kwargs)


@code_row(nested_code(functools.singledispatch.__code__, "dispatch"))
def _dispatch(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    if fn.obj is None or len(args) != 1 or not isinstance(args[0], ClassValue):
        return None
    return _chosen(tx, fn.obj, args[0].obj)


def _chosen(tx: Tracer, dispatch: Any, cls: type) -> Value:
    """What is registered for a class, as long as nothing else is registered."""
    at = dispatch.__code__.co_freevars.index("registry")
    registry = dispatch.__closure__[at].cell_contents
    held = tx.identities.by_id.get(id(registry))
    if held is not None and id(held) in tx.effects.mutated:
        raise tx.break_("DD005", "a single-dispatch function that has just got another implementation")
    chosen = dispatch(cls)
    source = const_source(dispatch, "dispatch").attr("__closure__").step("tuple_item", at).step("cell")
    tx.guard(source, "len", len(registry))
    for registered, function in registry.items():
        if function is chosen and "<locals>" not in registered.__qualname__:
            tx.guard(source.step("dict_item", registered), "is", chosen)
    return tx.wrap(chosen, const_source(chosen, getattr(chosen, "__qualname__", "dispatched")))


@on_function(functools.singledispatchmethod.__get__, "| self obj cls?")
def _bind_dispatched(tx: Tracer, self: Value, obj: Value, cls: Value | None) -> Value:
    """The method for an instance, without the cache of weak references that newer versions keep."""
    dispatch = getattr_(tx, getattr_(tx, self, "dispatcher"), "dispatch")
    return PartialValue(functools.partial, FunctionValue(_DISPATCHED), [dispatch, obj, cls if cls is not None else NONE], {})


_DISPATCHED: Any = polyfills.call_dispatched


@on_function(functools.total_ordering, "cls")
def _total_ordering(tx: Tracer, cls: Value) -> Value:
    raise tx.break_("DD019", "total_ordering")
