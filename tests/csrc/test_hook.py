"""The frame hook: which frames it serves, which it leaves alone, and that it is gone afterwards."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dynamo import _C

from .kit import ALWAYS, compiled, leaf_on_input, native


@pytest.fixture
def frames() -> Callable[..., None]:
    """frames(compiled, ...): the hook serves frames of these functions' codes so; all others are left alone."""
    plans: dict[Any, _C.Compiled] = {}

    def handler(fn: Any, context: object) -> _C.Compiled | None:
        return plans.get(fn.__code__)

    def plan(*made: _C.Compiled) -> None:
        plans.update({c.fn.__code__: c for c in made})
        _C.reset_frames()

    _C.set_frame_handler(handler)
    return plan


def callee(a: Any, b: Any = 1) -> Any:
    return ("native", a, b)


def caller(*args: Any, **kwargs: Any) -> Any:
    return callee(*args, **kwargs)


def entry(*inputs: Any) -> Any:
    return ("entry", *inputs)


def test_a_frame_reached_from_native_code_is_served(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    outer = compiled(caller)
    assert outer(1) == ("entry", 1, 1)
    assert outer(1, b=2) == ("entry", 1, 2)
    assert not _C.hook_active()
    assert callee(1) == ("native", 1, 1)
    assert caller(1) == ("native", 1, 1)


def test_active_exactly_while_native_code_runs(frames: Any) -> None:
    seen: list[bool] = []

    def inner() -> None:
        seen.append(_C.hook_active())

    compiled(inner)()
    assert seen == [True]
    compiled(inner, entry=lambda *_: inner())()
    assert seen == [True, False]
    assert not _C.hook_active()
    _C.set_frame_handler(None)
    compiled(inner)()
    assert seen == [True, False, False]


def test_inputs_from_the_frame(frames: Any) -> None:
    free = "free"

    def every(a: Any, /, b: Any, *rest: Any, k: Any, **more: Any) -> Any:
        def keep() -> Any:
            return (a, k, free)

        return keep()

    served = compiled(every, entry=lambda *i: (*i[:-1], i[-1].cell_contents))
    frames(served)
    assert compiled(lambda: every(1, 2, 3, 4, k=5, z=6))() == (1, 2, 5, (3, 4), {"z": 6}, "free")


def test_misses_run_the_frame_natively(frames: Any) -> None:
    asked: list[Any] = []
    inner = compiled(callee, miss=lambda c, inputs: asked.append(inputs))
    frames(inner)
    outer = compiled(caller)
    assert outer(1) == ("native", 1, 1)
    assert asked == [(1, 1)]
    inner.cache.mode = _C.Cache.RUN_ONLY
    assert outer(1) == ("native", 1, 1)
    assert (len(asked), inner.cache.misses) == (1, 1)
    inner.cache.add(_C.Entry(leaf_on_input("eq", 5), entry))
    assert outer(5) == ("entry", 5, 1)
    inner.cache.mode = _C.Cache.SKIP
    assert outer(5) == ("native", 5, 1)


def test_what_miss_makes_is_called(frames: Any) -> None:
    frames(compiled(callee, miss=lambda c, inputs: entry))
    assert compiled(caller)(1) == ("entry", 1, 1)


def test_tails_are_performed_and_never_seen(frames: Any) -> None:
    def resume(a: Any) -> Any:
        return callee(a)

    deep = compiled(callee)
    frames(deep)
    deep.cache.add(_C.Entry(leaf_on_input("eq", 1), lambda a, b: _C.Tail(resume, (2,), native=True)))
    deep.cache.add(_C.Entry(leaf_on_input("eq", 2), lambda a, b: _C.Tail(compiled(resume, entry=lambda a: ("resumed", a)), (3,))))
    assert compiled(caller)(1) == ("resumed", 3)


def test_own_frame_is_not_intercepted_again(frames: Any) -> None:
    asked: list[Any] = []

    def recursive(n: int) -> int:
        return n + recursive(n - 1) if n else 0

    served = compiled(recursive, miss=lambda c, inputs: asked.append(inputs[0]))
    frames(served)
    assert served(5) == 15
    assert asked == [5, 4, 3, 2, 1, 0]  # its own frame once, through the call; the inner ones through the hook


def test_recursion_through_the_hook(frames: Any) -> None:
    def recursive(n: int) -> int:
        return n + recursive(n - 1) if n else 0

    served = compiled(recursive)
    served.cache.add(_C.Entry(leaf_on_input("pred", lambda n: n % 2 == 0), lambda n, *_: ("even", n)))
    frames(served)
    with pytest.raises(TypeError):
        served(5)
    assert not _C.hook_active()
    assert served(4) == ("even", 4)


def test_deep_recursion_is_a_recursion_error(frames: Any) -> None:
    def endless(n: int) -> Any:
        return endless(n + 1)

    served = compiled(endless)
    frames(served)
    with pytest.raises(RecursionError):
        served(0)
    assert not _C.hook_active()

    served.cache.add(_C.Entry(ALWAYS, lambda n, *_: _C.Tail(endless, (n,), native=True)))
    with pytest.raises(RecursionError):
        served(0)
    assert not _C.hook_active()


def test_exceptions(frames: Any) -> None:
    def boom(*_: Any) -> Any:
        raise KeyError("boom")

    for inner in (compiled(callee, entry=boom), compiled(callee, miss=boom)):
        frames(inner)
        with pytest.raises(KeyError, match="boom"):
            compiled(caller)(1)
        assert not _C.hook_active()

    def catches(a: Any) -> Any:
        try:
            return callee(a)
        except KeyError:
            return "caught"

    assert compiled(catches)(1) == "caught"


def test_generators_coroutines_and_classes_are_left_alone(frames: Any) -> None:
    asked: list[str] = []

    def generator(n: int) -> Iterator[Any]:
        for i in range(n):
            yield callee(i)

    async def coroutine() -> Any:
        return callee("async")

    def body() -> Any:
        class Made:
            x = callee("class")

        waiting = coroutine()
        try:
            waiting.send(None)
        except StopIteration as stop:
            got = stop.value
        thrown = generator(3)
        next(thrown)
        with contextlib.suppress(ValueError):
            thrown.throw(ValueError)
        return [Made.x, got, *generator(2), *(callee(x) for x in "g"), [callee(x) for x in "l"]]

    def handler(fn: Any, context: object) -> Any:
        asked.append(fn.__name__)
        return inner if fn is callee else None

    inner = compiled(callee, entry=lambda a, b: a)
    _C.set_frame_handler(handler)
    assert compiled(body)() == ["class", "async", 0, 1, "g", ["l"]]
    assert "generator" not in asked
    assert "coroutine" not in asked
    assert "Made" not in asked
    assert asked.count("callee") == 1


def test_a_generator_made_in_native_code_and_resumed_outside(frames: Any) -> None:
    def generator() -> Iterator[Any]:
        while True:
            yield callee(1)

    frames(compiled(callee, entry=entry))
    made = compiled(lambda: generator())()
    assert next(made) == ("native", 1, 1)
    assert compiled(lambda: next(made))() == ("entry", 1, 1)
    assert next(made) == ("native", 1, 1)


def test_the_handler_is_asked_once_per_code_and_context() -> None:
    asked: list[Any] = []

    def handler(fn: Any, context: object) -> None:
        asked.append((fn.__name__, context))

    _C.set_frame_handler(handler)
    for context in ("one", "two", "one", "two"):
        compiled(caller, context=context)(1)
    assert asked == [("callee", "one"), ("callee", "two")]
    _C.reset_frames()
    compiled(caller, context="one")(1)
    assert len(asked) == 3


def test_equal_code_objects_are_different_keys(frames: Any) -> None:
    space: dict[str, Any] = {}
    copies = []
    for i in range(2):
        exec(compile("def f(a):\n    return ('native', a)\n", "same", "exec"), space)
        copies.append(space["f"])
    assert copies[0].__code__ == copies[1].__code__
    assert copies[0].__code__ is not copies[1].__code__
    seen: list[Any] = []

    def handler(fn: Any, context: object) -> Any:
        seen.append(fn)
        return compiled(fn, entry=lambda a, k=copies.index(fn): (k, a)) if fn in copies else None

    _C.set_frame_handler(handler)
    assert compiled(lambda: [f("x") for f in copies])() == [(0, "x"), (1, "x")]


def test_same_code_with_other_globals_runs_natively(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    twin = type(callee)(callee.__code__, {**globals()}, "twin", callee.__defaults__)
    assert compiled(lambda: (callee(1), twin(1)))() == (("entry", 1, 1), ("native", 1, 1))


def test_handler_errors_arrive() -> None:
    def handler(fn: Any, context: object) -> Any:
        return 3 if fn is callee else None

    _C.set_frame_handler(handler)
    with pytest.raises(TypeError, match="frame handler: expected None or a Compiled"):
        compiled(caller)(1)
    _C.set_frame_handler(lambda fn, context: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compiled(caller)(1)
    with pytest.raises(TypeError, match="expected a callable"):
        _C.set_frame_handler(3)
    assert not _C.hook_active()


def test_off_while_compiling_and_while_disabled(frames: Any) -> None:
    results: list[Any] = []

    def miss(c: Any, inputs: Any) -> None:
        results.append(callee("compiling"))

    frames(compiled(callee, entry=entry))
    outer = compiled(caller, miss)
    assert outer(1) == ("entry", 1, 1)
    assert results == [("native", "compiling", 1)]
    assert compiled(lambda: _C.disabled_call(callee, (1,), None))() == ("native", 1, 1)
    assert compiled(lambda: (_C.disabled_call(lambda: None, (), None), callee(2)))() == (None, ("entry", 2, 1))
    assert compiled(lambda: compiled(caller, entry=lambda args, kwargs: callee("in an entry"))())() == ("native", "in an entry", 1)
    _C.set_stance(2)
    try:
        assert outer(1) == ("native", 1, 1)
    finally:
        _C.set_stance(0)


def test_compiled_objects_called_from_native_code_work_normally(frames: Any) -> None:
    other = compiled(lambda a: None, entry=lambda a: ("other", a))
    assert compiled(lambda: other(1))() == ("other", 1)


def test_only_in_the_thread_that_runs_natively(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    inside, done = threading.Event(), threading.Event()

    def waits() -> Any:
        inside.set()
        assert done.wait(60)
        return callee("native thread")

    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(compiled(waits)()))
    thread.start()
    assert inside.wait(60)
    assert _C.hook_active()
    got.append(caller("other thread"))
    done.set()
    thread.join()
    assert got == [("native", "other thread", 1), ("entry", "native thread", 1)]
    assert not _C.hook_active()


def test_threads_in_and_out_of_scopes(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    outer, wrong = compiled(caller), []

    def work() -> None:
        for i in range(3000):
            if outer(i) != ("entry", i, 1) or caller(i) != ("native", i, 1):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert not _C.hook_active()


@pytest.mark.parametrize("how", ["hit", "raise", "miss", "many locals"])
def test_frames_are_disposed_of(frames: Any, how: str) -> None:
    """Hits leave no reference behind and give the frame's stack space back."""
    wide: Any = callee
    if how == "many locals":  # each such frame needs a chunk of stack of its own
        space: dict[str, Any] = {}
        names = ", ".join(f"v{i}" for i in range(3000))
        exec(f"def wide(a, b=1):\n    {names} = range(3000)\n    return ('native', a, b)\n", space)
        wide = space["wide"]

    def boom(*_: Any) -> Any:
        raise KeyError

    def loop(n: int, args: tuple[Any, ...]) -> None:
        for _ in range(n):
            if how == "raise":
                with contextlib.suppress(KeyError):
                    wide(*args)
            else:
                wide(*args)

    inner = compiled(wide, native) if how == "miss" else compiled(wide, entry=boom if how == "raise" else entry)
    frames(inner)
    args, outer = (object(), object()), compiled(loop)
    outer(100, args)
    gc.collect()
    watched = [*args, wide, wide.__code__, inner]
    counts = [sys.getrefcount(o) for o in watched]
    outer(20_000 if how == "many locals" else 100_000, args)
    assert [sys.getrefcount(o) for o in watched] == counts


def test_a_tracer_is_left_alone(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    inside: list[Any] = []

    def profile(frame: Any, event: str, arg: object) -> None:
        if event == "call" and frame.f_code is traced.__code__:
            inside.append(callee("from the profiler"))

    def traced() -> Any:
        return callee(1)

    sys.setprofile(profile)
    try:
        got = compiled(traced)()
    finally:
        sys.setprofile(None)
    assert got == ("entry", 1, 1)
    assert inside == [("native", "from the profiler", 1)]


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is new in 3.12")
def test_monitoring_callbacks_are_left_alone(frames: Any) -> None:
    frames(compiled(callee, entry=entry))
    inside: list[Any] = []
    events, tool = sys.monitoring.events, sys.monitoring.PROFILER_ID

    def started(code: Any, offset: int) -> None:
        inside.append(callee("from the callback"))

    def traced() -> Any:
        return callee(1)

    sys.monitoring.use_tool_id(tool, "test")
    try:
        sys.monitoring.register_callback(tool, events.PY_START, started)
        sys.monitoring.set_local_events(tool, traced.__code__, events.PY_START)
        got = compiled(traced)()
    finally:
        sys.monitoring.set_local_events(tool, traced.__code__, 0)
        sys.monitoring.register_callback(tool, events.PY_START, None)
        sys.monitoring.free_tool_id(tool)
    assert got == ("entry", 1, 1)
    assert inside == [("native", "from the callback", 1)]


def test_endless_new_code_objects_are_not_all_kept() -> None:
    _C.set_frame_handler(lambda fn, context: None)

    def make_and_call(n: int) -> int:
        total = 0
        for _ in range(n):
            code = callee.__code__.replace()
            total += type(callee)(code, globals(), "f", (1,))(1)[1]
        return total

    assert compiled(make_and_call)(70_000) == 70_000
