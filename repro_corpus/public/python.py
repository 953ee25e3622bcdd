"""After reports of compiled functions in which Python itself came out differently."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, defaultdict

import torch

from repro_corpus.program import program

FLAG = False


@program("pytorch#93151", "an OrderedDict made inside")
def ordered_dict(compile):
    @compile
    def f(x):
        y = OrderedDict()
        y["b"] = x
        y["a"] = x + 1
        y.move_to_end("b")
        return y

    return f(torch.ones(2))


@program("pytorch#130554", "a defaultdict of sets of tensors")
def default_dict(compile):
    @compile
    def f(x):
        d = defaultdict(list)
        d["sin"].append(x.cos())
        d["cos"].append(x.sin())
        d["sin"].append(x)
        return d

    return f(torch.ones(2))


@program("pytorch#93152", "a dict made of a list of pairs")
def dict_of_pairs(compile):
    return compile(lambda x: dict([("a", x), ("b", x * 2)])["b"])(torch.ones(2))  # noqa: C406  # the form reported


@program("pytorch#112408", "a subclass of OrderedDict made with keywords")
def dict_subclass_keywords(compile):
    class Output(OrderedDict):
        pass

    return compile(lambda x: Output(a=x, b=x + 1))(torch.ones(2))["b"]


@program("pytorch#141217", "methods of a dict subclass, and changes of one")
def dict_subclass(compile):
    class Mine(dict):
        pass

    @compile
    def f(x, d):
        x = x * len(d) * d["b"] * d.get("d", 11) * len(d.copy())
        for k, v in d.items():
            x = x + len(k) + v
        d["new"] = d.pop("a")
        d.setdefault("z", 1)
        return x, "c" in d

    d = Mine(a=3, b=5, c=7)
    return f(torch.ones(2), d), d, type(d).__name__


@program("pytorch#197896", "a method of a class defined outside and made inside changes a captured list and dict")
def captured_containers(compile):
    log, state = [], {"n": 0}

    class Helper:
        def touch(self, k):
            log.append(k)
            state["n"] += 1
            state[k] = k

    @compile
    def f(x):
        helper = Helper()
        helper.touch(3)
        Helper().touch(4)
        return x * state["n"]

    return f(torch.ones(2)), f(torch.ones(2)), log, state


@program("pytorch#138112", "a nonlocal written in one function and read in another")
def nonlocal_across(compile):
    z, k = 1, 2

    def create():
        def fn():
            nonlocal k
            k = z

        return fn

    def run(fn, x):
        nonlocal z
        z = 3
        fn()
        return x.cos()

    @compile
    def f(x):
        return run(create(), x)

    return f(torch.ones(2)), z, k


@program("pytorch/torchdynamo#55", "a counter that rebinds its captured tensor, called twice")
def counter_closure(compile):
    def make():
        x = torch.ones(3)

        def counter():
            nonlocal x
            x = x + 1
            return x

        return counter

    counter = make()
    f = compile(lambda counter: counter() + counter())
    return f(counter), f(counter), counter()


@program("pytorch#191821", "a global rebound in a loop is read by a function called there")
def global_rebound(compile):
    namespace = {"torch": torch}
    exec(
        "held = None\ndef region():\n    return held + 1\ndef f(h):\n    global held\n    for _ in range(2):\n"
        "        held = h\n        h = region()\n    return h\n",
        namespace,
    )
    f = compile(namespace["f"])
    return f(torch.tensor(0)), namespace["held"], f(torch.tensor(5))


@program("pytorch#132165", "functions that write the global that a compiled function branches on")
def global_flag(compile):
    def switch(value):
        global FLAG
        FLAG = value

    @compile
    def f(x):
        switch(True)
        y = x + 1 if FLAG else x - 1
        switch(False)
        return y, FLAG

    return f(torch.ones(2)), FLAG


@program("pytorch#174166", "a missing attribute of a tensor in try")
def missing_attribute_in_try(compile):
    @compile
    def f(x):
        try:
            return x.this_attribute_does_not_exist
        except AttributeError as e:
            return x * 2, str(e)

    return f(torch.ones(2))


@program("pytorch#148475", "expand_as that fails is caught by the program")
def failing_expand(compile):
    @compile
    def f(t):
        try:
            t.expand_as(torch.ones(2))
        except RuntimeError:
            return t.sin()
        return t.cos()

    return f(torch.ones(2, 3))


@program("pytorch#93720", "code in an exception handler, after a failed assert")
def handler_of_assert(compile):
    @compile
    def f(x):
        try:
            x = x + 1
            assert False  # noqa: B011, PT015  # the form reported
        except AssertionError:
            x = x + 2
        return x

    return f(torch.ones(2))


@program("pytorch#105513", "assert on data inside no_grad")
def assert_in_no_grad(compile):
    @compile
    def f(x):
        with torch.no_grad():
            assert x.max() < 5, f"invalid max {x.max()}"
            return torch.sin(x)

    seen = [f(torch.ones(2, requires_grad=True))]
    try:
        f(torch.full((2,), 9.0))
    except AssertionError as e:
        seen.append(str(e))
    return seen


@program("pytorch#128651", "a context manager's finally appends to a list")
def contextmanager_finally(compile):
    log = []

    @contextlib.contextmanager
    def appending():
        try:
            yield 3
        finally:
            log.append(4)

    @compile
    def f(x):
        with appending() as k:
            return x * k

    return f(torch.ones(2)), log


@program("pytorch#173231", "TypeError of a constructor inside a context manager")
def error_in_context(compile):
    class Needs:
        def __init__(self, cls):
            self.cls = cls

    @contextlib.contextmanager
    def context():
        yield

    @compile
    def f(x):
        with context():
            return x, Needs()

    try:
        f(torch.ones(2))
    except TypeError as e:
        return str(e)
