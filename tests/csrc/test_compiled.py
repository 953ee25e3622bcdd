"""Compiled, Cache, Entry, Tail and Direct: lookup, driving, errors, references, threads, and being a function."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import os
import pickle
import resource
import sys
import threading
import tracemalloc
import types
import typing
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dynamo import _C

from .kit import ALWAYS, NEVER, compiled, leaf_on_input, native, node, tree


def add(a: Any, b: Any = 1) -> Any:
    """Adds."""
    return a + b


# ---- lookup ----


def test_entries_are_tried_in_order_and_hits_move_to_the_front() -> None:
    served = compiled(add)
    first = _C.Entry(leaf_on_input("eq", 1), lambda a, b: "one", "info")
    second = _C.Entry(leaf_on_input("eq", 2), lambda a, b: "two")
    served.cache.add(second)
    served.cache.add(first)
    assert served.cache.entries == (first, second)
    assert (first.info, second.info) == ("info", None)
    assert served(2) == "two"
    assert served.cache.entries == (second, first)
    assert served(1) == served(1) == "one"
    assert (first.hits, second.hits) == (2, 1)
    assert served.cache.entries == (first, second)
    assert served(3) == 4
    served.cache.remove(first)
    assert served.cache.entries == (second,)
    with pytest.raises(ValueError, match="not in the cache"):
        served.cache.remove(first)
    served.cache.clear()
    assert served.cache.entries == ()


def test_miss_gets_the_inputs_and_its_result_is_called() -> None:
    calls: list[Any] = []

    def miss(c: _C.Compiled, inputs: Any) -> Callable[..., Any]:
        calls.append((c, inputs))
        entry = _C.Entry(leaf_on_input("eq", inputs[0]), lambda a, b: ("entry", a, b))
        c.cache.add(entry)
        return entry.fn

    served = compiled(add, miss)
    assert [served(5), served(5), served(6, b=2)] == [("entry", 5, 1), ("entry", 5, 1), ("entry", 6, 2)]
    assert calls == [(served, (5, 1)), (served, (6, 2))]


@pytest.mark.parametrize(("mode", "asked", "missed"), [(_C.Cache.ACTIVE, 1, 0), (_C.Cache.RUN_ONLY, 0, 1), (_C.Cache.SKIP, 0, 0)])
def test_cache_modes(mode: int, asked: int, missed: int) -> None:
    misses: list[Any] = []
    served = compiled(add, lambda c, inputs: misses.append(inputs))
    served.cache.mode = mode
    assert served.cache.mode == mode
    assert served(1) == 2
    assert (len(misses), served.cache.misses) == (asked, missed)
    served.cache.add(_C.Entry(ALWAYS, lambda a, b: "entry"))
    assert served(1) == (2 if mode == _C.Cache.SKIP else "entry")


def test_bad_modes() -> None:
    cache = _C.Cache(add.__code__)
    for bad in (-1, 3, 10**30):
        with pytest.raises((ValueError, OverflowError)):
            cache.mode = bad
    with pytest.raises(TypeError):
        cache.mode = "x"
    assert cache.mode == _C.Cache.ACTIVE


def test_stances() -> None:
    asked: list[Any] = []
    reported: list[Any] = []
    served = compiled(add, lambda c, inputs: asked.append(inputs))
    _C.set_frozen_handler(lambda c, inputs: reported.append((c, inputs)))
    try:
        assert _C.set_stance(1) == 0
        assert served(1) == 2
        assert (asked, reported, served.cache.misses) == ([], [(served, (1, 1))], 1)
        served.cache.add(_C.Entry(ALWAYS, lambda a, b: "entry"))
        assert served(1) == "entry"
        assert _C.set_stance(2) == 1
        assert served(1) == 2
        assert len(reported) == 1
        with pytest.raises(ValueError, match="set_stance: 5"):
            _C.set_stance(5)
    finally:
        _C.set_stance(0)
        _C.set_frozen_handler(None)
    assert served(1) == "entry"


def test_stance_is_per_thread() -> None:
    served = compiled(add, entry=lambda a, b: "entry")
    seen: list[Any] = []
    _C.set_stance(2)
    try:
        thread = threading.Thread(target=lambda: seen.append(served(1)))
        thread.start()
        thread.join()
    finally:
        _C.set_stance(0)
    assert seen == ["entry"]


def test_a_failing_frozen_handler_does_not_fail_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    _C.set_frozen_handler(lambda c, inputs: 1 / 0)
    _C.set_stance(1)
    try:
        assert compiled(add)(1) == 2
    finally:
        _C.set_stance(0)
        _C.set_frozen_handler(None)
    assert [type(u.exc_value) for u in unraisable] == [ZeroDivisionError]


def test_disabled_call() -> None:
    served = compiled(add, entry=lambda a, b: "entry")
    assert _C.disabled_call(lambda x: served(x), (1,), None) == 2
    assert _C.disabled_call(lambda x, y: served(x, b=y), (1,), {"y": 5}) == 6
    with pytest.raises(ZeroDivisionError):
        _C.disabled_call(lambda: 1 / 0, (), {})
    assert served(1) == "entry"


# ---- tails ----


def chain(make: Callable[[Callable[..., Any]], Any]) -> int:
    """The deepest Python stack seen while a chain of 100,000 pending calls runs."""
    deepest = 0

    def depth() -> int:
        frame, n = sys._getframe(), 0
        while frame is not None:
            frame, n = frame.f_back, n + 1
        return n

    def step(n: int) -> Any:
        nonlocal deepest
        if n % 9999 == 0:
            deepest = max(deepest, depth())
        return _C.Tail(target, (n - 1,)) if n else "done"

    target = make(step)
    assert compiled(lambda n: n, entry=lambda n: _C.Tail(target, (n,)))(100_000) == "done"
    return deepest - depth()


def test_long_chains_use_no_stack() -> None:
    assert chain(lambda step: step) < 3

    def resume(n: int) -> Any: ...

    assert chain(lambda step: compiled(resume, entry=step)) < 3
    assert chain(lambda step: compiled(step)) < 3
    assert chain(lambda step: compiled(resume, miss=lambda c, inputs: step)) < 3


def test_tails_from_every_source_are_performed() -> None:
    def tail(x: int) -> _C.Tail:
        return _C.Tail(add, (x, 1))

    def resume(a: int, b: int, *, c: int = 5) -> int:
        return a + b + c

    assert compiled(add, entry=lambda a, b: tail(a))(1) == 2
    assert compiled(add, miss=lambda c, i: lambda a, b: tail(a))(1) == 2
    assert compiled(lambda a: tail(a))(1) == 2
    assert compiled(add, entry=lambda a, b: _C.Tail(compiled(resume), (a, b)))(1, 2) == 8
    assert compiled(add, entry=lambda a, b: _C.Tail(compiled(resume, entry=lambda a, b, c: (a, b, c)), (a, b)))(1, 2) == (1, 2, 5)
    assert compiled(add, entry=lambda a, b: _C.Tail(add, (a, b), native=True))(1, 2) == 3
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled(add, entry=lambda a, b: _C.Tail(compiled(resume), (a,)))(1)


def test_tail_objects() -> None:
    made = _C.Tail(add, (1, 2), True)
    assert (made.fn, made.args, made.native) == (add, (1, 2), True)
    made = _C.Tail(fn=add, args=(1,), native=0)
    assert (made.args, made.native) == ((1,), False)
    for bad in (lambda: _C.Tail(add), lambda: _C.Tail(add, [1]), lambda: _C.Tail(add, (1,), nonsense=1), lambda: _C.Tail()):
        with pytest.raises(TypeError):
            bad()
    box: list[Any] = [_C.Tail(add, ())]
    box.append(_C.Tail(add, (box,)))
    gone = weakref.ref(cell := compiled(add))
    box.append(cell)
    del box, cell
    gc.collect()
    assert gone() is None


# ---- direct ----


def test_direct() -> None:
    def fn(*args: Any) -> Any:
        return args

    assert _C.Direct(fn, (2, 0, 0), None)("a", "b", "c") == ("c", "a", "a")
    assert _C.Direct(fn, (1,), 0)("a", "b") == "b"
    assert _C.Direct(lambda *a: list(a), (0, 1), (1, 0, 1))("a", "b") == ("b", "a", "b")
    assert _C.Direct(fn, (), ())() == ()
    assert _C.Direct(lambda x: {3: "dict"}, (0,), 3)(1) == "dict"
    assert len(_C.Direct(fn, tuple(range(100)), None)(*range(100))) == 100
    served = compiled(add, entry=_C.Direct(fn, (1,), (0,)))
    assert served(1, "b") == ("b",)
    with pytest.raises(IndexError):
        _C.Direct(fn, (0,), 1)("a")
    with pytest.raises(IndexError):
        _C.Direct(fn, (0,), (0, 1))("a")
    with pytest.raises(ZeroDivisionError):
        _C.Direct(lambda x: 1 / 0, (0,), 0)("a")
    with pytest.raises(TypeError, match="reads input 3, got 1 inputs"):
        _C.Direct(fn, (3,), None)("a")
    with pytest.raises(TypeError, match="no keyword"):
        _C.Direct(fn, (0,), None)(a=1)
    with pytest.raises(ValueError, match="is negative"):
        _C.Direct(fn, (-1,), None)
    with pytest.raises(TypeError, match="out must be"):
        _C.Direct(fn, (0,), "x")


# ---- errors ----


class Boom(Exception):
    pass


def raising(*_: Any) -> Any:
    raise Boom


@pytest.mark.parametrize(
    "served",
    [
        compiled(add, entry=raising),
        compiled(add, miss=raising),
        compiled(add, miss=lambda c, i: raising),
        compiled(raising),
        compiled(add, entry=lambda a, b: _C.Tail(raising, ())),
        compiled(add, entry=lambda a, b: _C.Tail(raising, (), True)),
        compiled(add, entry=lambda a, b: _C.Tail(compiled(raising), (1,))),
    ],
    ids=["entry", "miss", "made", "native", "tail", "native tail", "compiled tail"],
)
def test_exceptions_arrive_untouched(served: _C.Compiled) -> None:
    args = [object(), object()]
    before = [sys.getrefcount(a) for a in args]
    for _ in range(50):
        with pytest.raises(Boom) as info:
            served(*args)
        assert info.value.__cause__ is None
        assert info.value.__context__ is None
        del info
    gc.collect()
    assert [sys.getrefcount(a) for a in args] == before


def test_an_interrupt_in_a_guard_arrives() -> None:
    def interrupt(_: object) -> bool:
        raise KeyboardInterrupt

    served = compiled(add)
    served.cache.add(_C.Entry(leaf_on_input("pred", interrupt), lambda a, b: "entry"))
    with pytest.raises(KeyboardInterrupt):
        served(1)


def test_endless_recursion_is_a_recursion_error() -> None:
    served: Any = compiled(add, entry=lambda a, b: served(a, b))
    with pytest.raises(RecursionError):
        served(1)
    loop: list[Any] = []
    loop.append(compiled(add, entry=_C.Direct(lambda a, b: loop[0](a, b), (0, 1), None)))
    with pytest.raises(RecursionError):
        loop[0](1)


def test_constructor_errors() -> None:
    cache = _C.Cache(add.__code__)
    with pytest.raises(TypeError):
        _C.Compiled(len, cache, native)
    with pytest.raises(TypeError, match="miss must be callable"):
        _C.Compiled(add, cache, None)
    with pytest.raises(ValueError, match="the cache is for"):
        _C.Compiled(raising, cache, native)
    with pytest.raises(TypeError, match="fn must be callable"):
        _C.Entry(ALWAYS, 3)
    with pytest.raises(TypeError, match="expected an Entry"):
        cache.add(3)
    with pytest.raises(TypeError):
        _C.Cache(add)


# ---- recursion, re-entrance, generators ----


def test_an_entry_may_call_its_own_compiled() -> None:
    def fact(n: int) -> int: ...

    served: Any = compiled(fact, entry=lambda n: n * served(n - 1) if n else 1)
    assert served(20) == 2432902008176640000


def test_entries_may_change_while_they_are_tried() -> None:
    served = compiled(add)

    def clear(_: object) -> bool:
        served.cache.clear()
        gc.collect()
        return True

    served.cache.add(_C.Entry(leaf_on_input("pred", clear), lambda a, b: "cleared"))
    served.cache.add(_C.Entry(NEVER, lambda a, b: "never"))
    assert served(1) == "cleared"
    assert served.cache.entries == ()

    def drop_self(a: int, b: int) -> str:
        served.cache.clear()
        gc.collect()
        return "kept alive"

    served.cache.add(_C.Entry(ALWAYS, drop_self))
    del drop_self
    assert served(1) == "kept alive"


def test_generator_and_coroutine_functions() -> None:
    def numbers(n: int) -> Iterator[int]:
        yield from range(n)

    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert list(compiled(numbers)(3)) == [0, 1, 2]
    assert asyncio.run(compiled(later)(3)) == 3
    assert list(compiled(numbers, entry=lambda n: iter("abc"))(3)) == ["a", "b", "c"]


def test_threads_call_and_compile_at_once() -> None:
    lock = threading.Lock()

    def miss(c: _C.Compiled, inputs: Any) -> Callable[..., Any]:
        with lock:
            entry = _C.Entry(leaf_on_input("eq", inputs[0]), lambda a, b, k=inputs[0]: (k, a))
            if len(c.cache.entries) > 5:
                c.cache.remove(c.cache.entries[-1])
            c.cache.add(entry)
        return entry.fn

    served = compiled(add, miss)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(4000):
            n = (i * seed) % 11
            if served(n) != (n, n):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(s,)) for s in (1, 2, 3, 5, 7)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(served.cache.entries) <= 12


# ---- references and memory ----


def rss() -> int:
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def closure_fn() -> Any:
    cell = object()

    def f(a: Any, *rest: Any, k: Any = None, **more: Any) -> Any:
        return (a, cell)

    return f


CASES: dict[str, tuple[_C.Compiled, tuple[Any, ...], dict[str, Any]]] = {
    "hit": (compiled(add, entry=lambda a, b: a), (object(), object()), {}),
    "hit by keyword": (compiled(add, entry=lambda a, b: a), (object(),), {"b": object()}),
    "hit with everything": (compiled(closure_fn(), entry=lambda *i: i), (object(), 1, 2), {"k": object(), "z": object()}),
    "native": (compiled(add), (1, 2), {}),
    "made": (compiled(add, miss=lambda c, i: lambda a, b: a), (object(), 1), {}),
    "tail": (compiled(add, entry=lambda a, b: _C.Tail(lambda x: x, (a,))), (object(), 1), {}),
    "tail to compiled": (compiled(add, entry=lambda a, b: _C.Tail(TAIL_TARGET, (a,))), (object(), 1), {}),
    "direct": (compiled(add, entry=_C.Direct(lambda x: (x, x), (0,), (0, 1))), (object(), 1), {}),
}
TAIL_TARGET = compiled(lambda x: x)


@pytest.mark.parametrize("name", CASES)
def test_many_calls_leak_nothing(name: str) -> None:
    served, args, kwargs = CASES[name]
    values = [*args, *kwargs.values(), served, served.fn, served.cache]

    def run(n: int) -> None:
        for _ in range(n):
            served(*args, **kwargs)

    run(1000)
    counts = [sys.getrefcount(v) for v in values]
    tracemalloc.start()
    run(1000)
    memory, resident = tracemalloc.get_traced_memory()[0], rss()
    run(20_000)
    grown = tracemalloc.get_traced_memory()[0] - memory
    tracemalloc.stop()
    run(100_000)
    assert [sys.getrefcount(v) for v in values] == counts
    assert grown < 4096
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # AddressSanitizer keeps freed blocks on purpose
        assert rss() - resident < 4 << 20


def test_guards_leak_nothing() -> None:
    t, d = torch.zeros(3), {"k": [1]}
    guards = tree(
        (1, "state", _C.GlobalState()),
        node(
            "input", 0, (2, "tensor", _C.TensorFacts(t)), (3, "distinct", None), node("attr", "shape", node("tuple_item", 0, (4, "eq", 3)))
        ),
        node(
            "input",
            1,
            (5, "distinct", None),
            (6, "dict_keys", ("k",)),
            node("dict_item", "k", (7, "len", 1), node("call", len, (8, "eq", 1))),
        ),
    )
    bad = {"k": [1, 2]}
    for _ in range(10):
        guards.check((t, d)), guards.check((t, bad)), guards.explain((t, bad))
    before = [sys.getrefcount(o) for o in (t, d, d["k"], bad, guards)]

    def grown() -> int:
        tracemalloc.start()
        guards.check((t, d))
        memory = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            assert guards.check((t, d))
            assert not guards.check((t, bad))
        for _ in range(1000):
            assert guards.explain((t, bad)) == (7, [1, 2])
            assert _C.GuardTree(node("root", None, node("input", 0, (1, "is", None)))).check((None,))
        more = tracemalloc.get_traced_memory()[0] - memory
        tracemalloc.stop()
        return more

    assert min(grown() for _ in range(3)) < 4096  # other threads of the process are traced too; a leak is there each time
    assert [sys.getrefcount(o) for o in (t, d, d["k"], bad, guards)] == before


def test_cycles_are_collected() -> None:
    def f(a: int) -> int:
        return a

    served = compiled(f)
    served.me = served
    served.cache.add(_C.Entry(tree(node("const", [served], (1, "len", 1))), lambda a, _keep=served: a, info=served))
    f.me = served
    assert served(1) == 1
    gone = weakref.ref(served)
    del served, f
    gc.collect()
    assert gone() is None


# ---- being a function ----


def test_it_looks_like_the_function() -> None:
    served = compiled(add, context="the context")
    assert (served.__name__, served.__qualname__, served.__doc__, served.__module__) == ("add", "add", "Adds.", __name__)
    assert served.__wrapped__ is add
    assert served.fn is add
    assert served.context == "the context"
    assert inspect.signature(served) == inspect.signature(add)
    assert inspect.unwrap(served) is add
    assert served.__defaults__ == (1,)
    assert served.__globals__ is globals()
    assert served.__code__ is add.__code__
    assert repr(served).startswith("<function add at 0x")
    assert callable(served)
    assert {served: 1}[served] == 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = served.nonsense


def test_its_own_attributes() -> None:
    def f() -> None: ...

    f.user = "on the function"
    served: Any = compiled(f)
    assert served.user == "on the function"
    served.user = "on the object"
    assert (served.user, f.user) == ("on the object", "on the function")
    assert served.__dict__ == {"user": "on the object"}
    del served.user
    assert served.user == "on the function"
    served.__name__ = "renamed"
    assert (served.__name__, f.__name__) == ("renamed", "f")
    del served.__name__
    assert served.__name__ == "f"
    with pytest.raises(AttributeError):
        served.fn = None
    gone = weakref.ref(served)
    del served
    assert gone() is None


def test_methods() -> None:
    class Holder:
        @compiled
        def method(self, x: int) -> Any:
            return (self, x)

        static = staticmethod(compiled(add))
        by_class = classmethod(compiled(lambda cls, x: (cls, x)))

    holder = Holder()
    assert holder.method(1) == (holder, 1)
    assert inspect.ismethod(holder.method)
    assert holder.method.__self__ is holder
    assert holder.static(1, 2) == 3
    assert holder.by_class(5) == (Holder, 5)
    assert isinstance(Holder.method, _C.Compiled)


def test_passes_for_a_function() -> None:
    served = compiled(add)
    assert isinstance(served, types.FunctionType)
    assert inspect.isfunction(served)
    assert inspect.getfile(served) == inspect.getfile(add)
    assert inspect.getsource(served) == inspect.getsource(add)
    assert typing.get_type_hints(served) == typing.get_type_hints(add)
    assert set(dir(add)) <= set(dir(served))
    assert type(served) is _C.Compiled


decorated = compiled(add)
decorated.__qualname__ = "decorated"


def test_copies_are_the_object_and_pickling_is_by_name() -> None:
    assert copy.copy(decorated) is decorated
    assert copy.deepcopy([decorated])[0] is decorated
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(decorated, protocol)) is decorated
        with pytest.raises(pickle.PicklingError, match="not the same object"):
            pickle.dumps(compiled(add), protocol)
