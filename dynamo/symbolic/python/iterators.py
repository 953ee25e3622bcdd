"""Iterators: iter, next, zip, enumerate, map, filter, reversed, and their use as objects.

A live iterator that a graph break needs is made again in generated code. `IterValue.rebuild()` gives (kind, values):

| kind       | values                        | code                                             |
|------------|-------------------------------|--------------------------------------------------|
| sequence   | [owner, index]                | iterator over owner that has taken index steps   |
| values     | [v, ...]                      | iter([v, ...])                                   |
| zip        | [iterator, ..., Const strict] | zip(iterator, ..., strict=strict)                |
| enumerate  | [iterator, Const next index]  | enumerate(iterator, index)                       |
| map        | [fn, iterator, ...]           | map(fn, iterator, ...)                           |
| filter     | [fn or None, iterator]        | filter(fn, iterator)                             |
| call       | [callable, argument, ...]     | callable(argument, ...)                          |

C's own iterators do the stepping: they run over `Steps`, which hands them values one at a time, so that laziness, exhaustion
and partial consumption are exactly CPython's.
"""

from __future__ import annotations

import collections
import itertools
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING
from dynamo.symbolic.protocols.calls import call, fold
from dynamo.symbolic.protocols.containers import index_of
from dynamo.symbolic.protocols.iteration import iter_, list_iter, next_
from dynamo.symbolic.protocols.operators import equal, getitem, len_, special, truth
from dynamo.symbolic.protocols.registry import METHODS
from dynamo.symbolic.protocols.rows import on_class, on_function
from dynamo.symbolic.python.lists import reverse_iter
from dynamo.symbolic.values.errors import CannotRebuild, Raised
from dynamo.symbolic.values.kinds import NONE, Const, IterValue, TracingState, TupleValue, Value
from dynamo.symbolic.values.slots import slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


class Steps:
    """A Python iterator over the values of an iterator value, each passed through `each`."""

    def __init__(self, tx: Tracer, it: Value, each: Callable[[Value], Any] | None = None) -> None:
        self.tx = tx
        self.it = it
        self.each = each

    def __iter__(self) -> Steps:
        return self

    def __next__(self) -> Any:
        v = next_(self.tx, self.it)
        if v is None:
            raise StopIteration
        return v if self.each is None else self.each(v)


Rebuild = Callable[[], tuple[str, list[Any]]]


def live(tx: Tracer, cls: type, real: Iterator[Any], rebuild: Rebuild | None = None) -> IterValue:
    """An iterator value driven by a real iterator over values (or tuples of values)."""

    def step() -> Value:
        try:
            return value_of(tx, next(real))
        except ValueError as e:  # zip(strict=True) finds unequal lengths
            raise tx.throw(ValueError, str(e)) from e
        except Raised as e:
            if issubclass(e.value.cls, StopIteration):  # C iterators end when a callback raises it
                raise StopIteration from e
            raise

    return IterValue(tx, cls, step, rebuild)


def value_of(tx: Tracer, x: Any) -> Value:
    if isinstance(x, Value):
        return x
    if isinstance(x, tuple):
        return TupleValue([value_of(tx, y) for y in x])
    return tx.wrap(x, None)


def before_first(tx: Tracer, cls: type, args: list[Value], started: list[bool]) -> Rebuild:
    """Rebuilding of an iterator that keeps state of its own: possible until its first step."""
    born = tx.root_step

    def rebuild() -> tuple[str, list[Any]]:
        if started[0]:
            raise CannotRebuild(f"a {cls.__name__} in use", born)
        return "call", [tx.wrap(cls, None), *args]

    return rebuild


def stateful(tx: Tracer, cls: type, make: Callable[[], Iterator[Any]], args: list[Value]) -> IterValue:
    """An iterator whose state lives in C once it has started."""
    started = [False]
    real: list[Iterator[Any]] = []

    def steps() -> Iterator[Any]:
        started[0] = True
        real.append(make())
        yield from real[0]

    return live(tx, cls, steps(), before_first(tx, cls, args, started))


# ---- builtins ---------------------------------------------------------------------------------------------


@on_function(iter, "object sentinel?")
def _iter(tx: Tracer, v: Value, sentinel: Value | None) -> Value:
    if sentinel is None:
        return iter_(tx, v)
    if tx.lookup(v.cls, "__call__") is MISSING:
        fold(tx, iter, [Const(3), Const(3)], {})  # raises, in the words of this version
    done = [False]

    def step() -> Value:
        if done[0]:
            raise StopIteration
        x = call(tx, v, [], {})
        if equal(tx, x, sentinel):
            done[0] = True
            raise StopIteration
        return x

    return IterValue(tx, type(iter(int, 1)), step, lambda: ("values", []) if done[0] else ("call", [tx.wrap(iter, None), v, sentinel]))


@on_function(next, "iterator default?")
def _next(tx: Tracer, it: Value, default: Value | None) -> Value:
    if not isinstance(it, TracingState) and tx.lookup(it.cls, "__next__") is MISSING:
        raise tx.throw(TypeError, f"'{c_name(it.cls)}' object is not an iterator")
    if default is None:
        return next_or_stop(tx, it)
    found = next_(tx, it)
    return found if found is not None else default


def next_or_stop(tx: Tracer, it: Value) -> Value:
    """next(it), raising the program's StopIteration at the end."""
    resume = slots(it).send
    if resume is not None:
        done, v = resume(tx, it, NONE)
        if not done:
            return v
        raise tx.throw(StopIteration, *([] if v is NONE else [v]))
    if isinstance(it, TracingState):
        found = next_(tx, it)
        if found is None:
            raise tx.throw(StopIteration)
        return found
    result = special(tx, it, "__next__")
    assert result is not None
    return result


@on_class(zip, "*iterables * strict?")
def _zip(tx: Tracer, cls: type, strict: Value | None, iterables: list[Value]) -> Value:
    its = [iter_(tx, v) for v in iterables]
    exact = strict is not None and truth(tx, strict)
    real = zip(*(Steps(tx, it) for it in its), strict=exact)
    return live(tx, zip, real, lambda: ("zip", [*its, Const(exact)]))


@on_class(enumerate, "| iterable start?")
def _enumerate(tx: Tracer, cls: type, iterable: Value, start: Value | None) -> Value:
    at = [index_of(tx, start) if start is not None else 0]
    it = iter_(tx, iterable)

    def pairs() -> Iterator[Any]:
        for v in Steps(tx, it):
            at[0] += 1
            yield at[0] - 1, v

    return live(tx, enumerate, pairs(), lambda: ("enumerate", [it, Const(at[0])]))


@on_class(map, "function *iterables")
def _map(tx: Tracer, cls: type, fn: Value, iterables: list[Value]) -> Value:
    if not iterables:
        raise tx.throw(TypeError, "map() must have at least two arguments.")
    its = [iter_(tx, v) for v in iterables]
    real = map(lambda *vs: call(tx, fn, list(vs), {}), *(Steps(tx, it) for it in its))
    return live(tx, map, real, lambda: ("map", [fn, *its]))


def predicate(tx: Tracer, fn: Value) -> Callable[[Value], bool]:
    """The test of filter and its kin; None stands for truth."""
    if isinstance(fn, Const) and fn.value is None:
        return lambda v: truth(tx, v)
    return lambda v: truth(tx, call(tx, fn, [v], {}))


@on_class(filter, "function iterable")
def _filter(tx: Tracer, cls: type, fn: Value, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    return live(tx, filter, filter(predicate(tx, fn), Steps(tx, it)), lambda: ("filter", [fn, it]))


@on_class(reversed, "sequence")
def _reversed(tx: Tracer, cls: type, v: Value) -> Value:
    if isinstance(v, Const) and v.cls is range:
        return iter_(tx, Const(v.value[::-1]))
    if isinstance(v, Const):
        try:
            return list_iter(tx, [tx.wrap(x, None) for x in reversed(v.value)], type(reversed(v.value)))
        except TypeError as e:
            raise tx.throw(TypeError, str(e)) from e
    own = tx.lookup(v.cls, "__reversed__")
    if own is not MISSING and own is not None:
        found = special(tx, v, "__reversed__")
        assert found is not None
        return found
    if isinstance(v, TupleValue):
        return reverse_iter(tx, v, reversed)
    if tx.lookup(v.cls, "__getitem__") is MISSING or own is None:
        raise tx.throw(TypeError, f"'{c_name(v.cls)}' object is not reversible")
    n = index_of(tx, len_(tx, v))
    return live(tx, reversed, (getitem(tx, v, Const(i)) for i in range(n - 1, -1, -1)))


# ---- iterators as objects ---------------------------------------------------------------------------------


def _iterator_types() -> list[type]:
    """The C iterator types that have rows or that containers hand out."""
    od: collections.OrderedDict[Any, Any] = collections.OrderedDict()
    d: dict[Any, Any] = {}
    mappings = [getattr(m, w)() for m in (d, od) for w in ("keys", "values", "items")]
    made = [
        iter([]),
        reversed([]),
        iter(()),
        iter(set()),
        iter(""),
        iter("\u0100"),
        iter(b""),
        iter(range(0)),
        iter(range(1 << 70)),
        iter(int, 1),
        iter(collections.deque()),
        reversed(collections.deque()),
        *map(iter, mappings),
        *map(reversed, mappings),
    ]
    return [
        *{type(x) for x in made},
        zip,
        enumerate,
        map,
        filter,
        reversed,
        *(c for c in vars(itertools).values() if isinstance(c, type)),
    ]


def _self_iter(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return self


def _step(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if not isinstance(self, TracingState):
        raise tx.break_("DD007", self.describe())
    return next_or_stop(tx, self)


def _length_hint(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    raise tx.break_("DD005", f"length hint of {self.describe()}")


_ROWS = {"__iter__": _self_iter, "__next__": _step, "__length_hint__": _length_hint}
for _cls in [*_iterator_types(), types.GeneratorType]:
    for _method, _handler in _ROWS.items():
        _raw = _cls.__dict__.get(_method)
        if _raw is not None and _raw is not types.GeneratorType.__next__:  # which runs a frame (interp/generators.py)
            METHODS.add(_raw)(_handler)
