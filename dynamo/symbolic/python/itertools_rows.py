"""itertools, driven by the real itertools over values (see `iterators.Steps`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.protocols.containers import index_of, size_of
from dynamo.symbolic.protocols.iteration import iter_, next_, unpack_iterable
from dynamo.symbolic.protocols.operators import binary, equal, truth
from dynamo.symbolic.protocols.registry import FUNCTIONS
from dynamo.symbolic.protocols.rows import on_class, on_function
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.python.iterators import Steps, live, predicate, stateful
from dynamo.symbolic.values.kinds import NONE, Const, IterValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def _given(v: Value | None) -> Value | None:
    """An argument, where it was given and is not the program's None."""
    return None if isinstance(v, Const) and v.value is None else v


def _int(tx: Tracer, v: Value, complaint: str) -> Value:
    """The argument, which has to be an int: what can be made one is refused."""
    if not issubclass(v.cls, int):
        raise tx.throw(TypeError, complaint)
    return v


def _index(tx: Tracer, v: Value | None) -> int | None:
    given = _given(v)
    return None if given is None else index_of(tx, given)


# ---- chain ------------------------------------------------------------------------------------------------


def _chain(tx: Tracer, outer: Value, rebuild_rest: Callable[[], list[Value]]) -> IterValue:
    """Over the iterators that `outer` gives; rebuilt from the current one and the rest."""
    current: list[Value] = []

    def steps() -> Iterator[Value]:
        for iterable in Steps(tx, outer):
            current[:] = [iter_(tx, iterable)]
            yield from Steps(tx, current[0])
        current.clear()

    def rebuild() -> tuple[str, list[Any]]:
        return "call", [tx.wrap(itertools.chain, None), *current, *rebuild_rest()]

    return live(tx, itertools.chain, steps(), rebuild)


@on_class(itertools.chain, "*iterables")
def _chain_class(tx: Tracer, cls: type, iterables: list[Value]) -> Value:
    rest = list(reversed(iterables))

    def step() -> Value:
        if not rest:
            raise StopIteration
        return rest.pop()

    return _chain(tx, IterValue(tx, type(iter(())), step), lambda: list(reversed(rest)))


def _from_iterable(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    outer = iter_(tx, args[1])
    fn = tx.wrap(itertools.chain.from_iterable, None)

    def rest() -> list[Value]:
        return [IterValue(tx, itertools.chain, _never, lambda: ("call", [fn, outer]))]

    return _chain(tx, outer, rest)


def _never() -> Value:
    raise StopIteration


FUNCTIONS.add(itertools.chain.__dict__["from_iterable"], itertools.chain.from_iterable)(
    lambda tx, args, kwargs: _from_iterable(tx, args if len(args) == 2 else [NONE, *args], kwargs)
)


# ---- without state of their own ---------------------------------------------------------------------------


@on_class(itertools.starmap, "function iterable")
def _starmap(tx: Tracer, cls: type, fn: Value, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    real = itertools.starmap(lambda *vs: call(tx, fn, list(vs), {}), Steps(tx, it, lambda v: unpack_iterable(tx, v, with_room=True)))
    return live(tx, cls, real, lambda: ("call", [tx.wrap(cls, None), fn, it]))


@on_class(itertools.filterfalse, "function iterable")
def _filterfalse(tx: Tracer, cls: type, fn: Value, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    return live(tx, cls, itertools.filterfalse(predicate(tx, fn), Steps(tx, it)), lambda: ("call", [tx.wrap(cls, None), fn, it]))


@on_class(itertools.compress, "| data selectors")
def _compress(tx: Tracer, cls: type, data: Value, selectors: Value) -> Value:
    a, b = iter_(tx, data), iter_(tx, selectors)
    real = itertools.compress(Steps(tx, a), Steps(tx, b, lambda v: truth(tx, v)))
    return live(tx, cls, real, lambda: ("call", [tx.wrap(cls, None), a, b]))


@on_class(itertools.zip_longest, "*iterables * fillvalue?")
def _zip_longest(tx: Tracer, cls: type, fill: Value | None, iterables: list[Value]) -> Value:
    its = [iter_(tx, v) for v in iterables]
    real = itertools.zip_longest(*(Steps(tx, it) for it in its), fillvalue=fill if fill is not None else NONE)
    if _given(fill) is None:
        return live(tx, cls, real, lambda: ("call", [tx.wrap(cls, None), *its]))
    return live(tx, cls, real)


@on_class(itertools.count, "| start? step?")
def _count(tx: Tracer, cls: type, start: Value | None, step: Value | None) -> Value:
    at = [start if start is not None else Const(0)]
    by = step if step is not None else Const(1)

    def take() -> Value:
        v = at[0]
        at[0] = binary(tx, "+", v, by)
        return v

    return IterValue(tx, cls, take, lambda: ("call", [tx.wrap(cls, None), at[0], by]))


@on_class(itertools.repeat, "| object times?")
def _repeat(tx: Tracer, cls: type, obj: Value, times: Value | None) -> Value:
    left = [max(size_of(tx, times), 0) if times is not None else -1]

    def take() -> Value:
        if left[0] == 0:
            raise StopIteration
        left[0] -= 1
        return obj

    return IterValue(tx, cls, take, lambda: ("call", [tx.wrap(cls, None), obj, *([Const(left[0])] if left[0] >= 0 else [])]))


def cycle_from(saved: list[Any], rest: Iterator[Any], steps: int) -> Iterator[Any]:
    """A cycle over `saved` and then `rest` that has taken `steps` steps."""
    it = itertools.cycle(itertools.chain(saved, rest))
    for _ in range(steps):
        next(it)
    return it


@on_class(itertools.cycle, "iterable")
def _cycle(tx: Tracer, cls: type, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    saved: list[Value] = []
    at = [-1]

    def take() -> Value:
        if at[0] < 0:
            v = next_(tx, it)
            if v is not None:
                saved.append(v)
                return v
            at[0] = 0
        if not saved:
            raise StopIteration
        at[0] += 1
        return saved[(at[0] - 1) % len(saved)]

    def rebuild() -> tuple[str, list[Any]]:
        steps = len(saved) if at[0] < 0 else at[0] % max(len(saved), 1)
        return "call", [tx.wrap(cycle_from, None), tx.make_list(saved), it, Const(steps)]

    return IterValue(tx, cls, take, rebuild)


@on_class(itertools.islice, "iterable first second? step?")
def _islice(tx: Tracer, cls: type, iterable: Value, first: Value, second: Value | None, step: Value | None) -> Value:
    bounds = [_index(tx, v) for v in ([first] if second is None else [first, second, step])]
    it = iter_(tx, iterable)
    s = slice(*bounds)
    taken = [0]

    def counted(v: Value) -> Value:
        taken[0] += 1
        return v

    try:
        real = itertools.islice(Steps(tx, it, counted), *bounds)
    except ValueError as e:
        raise tx.throw(ValueError, str(e)) from e
    given = [0]

    def each() -> Iterator[Value]:
        for v in real:
            given[0] += 1
            yield v

    def rebuild() -> tuple[str, list[Any]]:
        start, by = s.start or 0, s.step or 1
        ahead = max(start + given[0] * by - taken[0], 0)
        stop = NONE if s.stop is None else Const(max(s.stop - taken[0], ahead))
        return "call", [tx.wrap(cls, None), it, Const(ahead), stop, Const(by)]

    return live(tx, cls, each(), rebuild)


# ---- with state of their own ------------------------------------------------------------------------------


@on_class(itertools.takewhile, "predicate iterable")
def _takewhile(tx: Tracer, cls: type, fn: Value, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    ended = [False]

    def test(v: Value) -> bool:
        ended[0] = not predicate(tx, fn)(v)
        return not ended[0]

    real = itertools.takewhile(test, Steps(tx, it))
    return live(tx, cls, real, lambda: ("values", []) if ended[0] else ("call", [tx.wrap(cls, None), fn, it]))


@on_class(itertools.dropwhile, "predicate iterable")
def _dropwhile(tx: Tracer, cls: type, fn: Value, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    passing = [False]

    def test(v: Value) -> bool:
        passing[0] = not predicate(tx, fn)(v)
        return not passing[0]

    real = itertools.dropwhile(test, Steps(tx, it))
    drops_none = tx.wrap(polyfills.drops_none, None)
    return live(tx, cls, real, lambda: ("call", [tx.wrap(cls, None), drops_none if passing[0] else fn, it]))


@on_class(itertools.accumulate, "| iterable func? * initial?")
def _accumulate(tx: Tracer, cls: type, iterable: Value, fn: Value | None, initial: Value | None) -> Value:
    it, given = iter_(tx, iterable), _given(fn)

    def add(a: Value, b: Value) -> Value:
        return binary(tx, "+", a, b) if given is None else call(tx, given, [a, b], {})

    start = _given(initial)
    return stateful(tx, cls, lambda: itertools.accumulate(Steps(tx, it), add, initial=start), [it, *([fn] if fn is not None else [])])


@on_class(itertools.pairwise, "iterable")
def _pairwise(tx: Tracer, cls: type, iterable: Value) -> Value:
    it = iter_(tx, iterable)
    return stateful(tx, cls, lambda: itertools.pairwise(Steps(tx, it)), [it])


batched: Any = getattr(itertools, "batched", None)  # since 3.12
if batched is not None:

    @on_class(batched, "iterable n * strict?")
    def _batched(tx: Tracer, cls: type, iterable: Value, n: Value, strict: Value | None) -> Value:
        it = iter_(tx, iterable)
        size = size_of(tx, n)
        if size < 1:
            raise tx.throw(ValueError, "n must be at least one")
        options = {} if strict is None else {"strict": truth(tx, strict)}
        return stateful(tx, cls, lambda: batched(Steps(tx, it), size, **options), [it, n])


class _Key:
    """A group key that real groupby compares with the program's ==."""

    def __init__(self, tx: Tracer, v: Value) -> None:
        self.tx = tx
        self.v = v

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and equal(self.tx, self.v, other.v)


@on_class(itertools.groupby, "| iterable key?")
def _groupby(tx: Tracer, cls: type, iterable: Value, key: Value | None) -> Value:
    it, given = iter_(tx, iterable), _given(key)

    def key_of(v: Value) -> _Key:
        return _Key(tx, v if given is None else call(tx, given, [v], {}))

    def groups() -> Iterator[Value]:
        for k, members in itertools.groupby(Steps(tx, it), key_of):
            group = live(tx, type(members), members)  # noqa: B031  # only looks at the type a second time
            yield TupleValue([k.v, group])

    return stateful(tx, cls, groups, [it, *([key] if key is not None else [])])


@on_function(itertools.tee, "iterable n?")
def _tee(tx: Tracer, iterable: Value, n: Value | None) -> Value:
    count = size_of(tx, n) if n is not None else 2
    if count < 0:
        raise tx.throw(ValueError, "n must be >= 0")
    shared = itertools.tee(Steps(tx, iter_(tx, iterable)), count)
    return tx.make_tuple([live(tx, type(real), real) for real in shared])


# ---- combinations -----------------------------------------------------------------------------------------


def _selection(tx: Tracer, cls: Any, pools: list[list[Value]], *args: Any, **kwargs: Any) -> IterValue:
    """product and its kin: the pools are taken at once; rebuilding takes the same steps again."""
    taken = [0]
    real = cls(*pools, *args, **kwargs)

    def steps() -> Iterator[Any]:
        for x in real:
            taken[0] += 1
            yield x

    def rebuild() -> tuple[str, list[Any]]:
        given = [tx.make_tuple(pool) for pool in pools * kwargs.get("repeat", 1)]
        return "advanced", [Const(taken[0]), tx.wrap(cls, None), *given, *(Const(a) for a in args)]

    return live(tx, cls, steps(), rebuild)


def _checked(tx: Tracer, r: int) -> int:
    if r < 0:
        raise tx.throw(ValueError, "r must be non-negative")
    return r


@on_class(itertools.product, "*iterables * repeat?")
def _product(tx: Tracer, cls: type, repeat: Value | None, iterables: list[Value]) -> Value:
    times = size_of(tx, repeat) if repeat is not None else 1
    if times < 0:
        raise tx.throw(ValueError, "repeat argument cannot be negative")
    return _selection(tx, itertools.product, [unpack_iterable(tx, v, with_room=True) for v in iterables], repeat=times)


@on_class(itertools.permutations, "| iterable r?")
def _permutations(tx: Tracer, cls: type, iterable: Value, r: Value | None) -> Value:
    pool = unpack_iterable(tx, iterable, with_room=True)
    given = _given(r)
    if given is None:
        return _selection(tx, itertools.permutations, [pool], None)
    return _selection(tx, itertools.permutations, [pool], _checked(tx, size_of(tx, _int(tx, given, "Expected int as r"))))


@on_class(itertools.combinations, "| iterable r")
def _combinations(tx: Tracer, cls: type, iterable: Value, r: Value) -> Value:
    return _selection(tx, itertools.combinations, [unpack_iterable(tx, iterable, with_room=True)], _checked(tx, size_of(tx, r)))


@on_class(itertools.combinations_with_replacement, "| iterable r")
def _combinations_with_replacement(tx: Tracer, cls: type, iterable: Value, r: Value) -> Value:
    pool = unpack_iterable(tx, iterable, with_room=True)
    return _selection(tx, itertools.combinations_with_replacement, [pool], _checked(tx, size_of(tx, r)))
