"""Compilers within compilers: `optimize` inside `optimize`, inside `disable`, and as a context manager."""

from __future__ import annotations

import inspect
import types
from collections.abc import Hashable

import torch

import dynamo
from repro_corpus.program import program


def _g(x):
    return x.cos() * 2


@program("", "a compiled function inside a compiled function")
def nested(compile):
    inner = compile(_g)

    @compile
    def f(x):
        return inner(x) + 1

    return f(torch.ones(2)), inner(torch.ones(2))


@program("", "compiling inside a compiled function")
def compile_inside(compile):
    @compile
    def f(x):
        return compile(_g)(x) + dynamo.optimize("eager")(_g)(x) + dynamo.compile(_g, backend="eager")(x)

    return f(torch.ones(2))


@program("", "a decorated function defined inside a compiled function")
def decorated_inside(compile):
    @compile
    def f(x):
        @dynamo.optimize("eager")
        def g(y):
            return y + x

        return g(x * 2)

    return f(torch.ones(2)), f(torch.ones(3))


@program("", "optimize inside disable")
def inside_disable(compile):
    @dynamo.disable
    def off(x):
        return dynamo.optimize("eager")(_g)(x)

    @compile
    def f(x):
        return off(x) + 1

    return f(torch.ones(2)), off(torch.ones(2))


@program("", "optimize as a context manager")
def context_manager(compile):
    def f(x):
        return _g(x) + 1

    with dynamo.optimize("eager"):
        a = f(torch.ones(2))
        b = f(torch.zeros(2))
    return a, b, f(torch.ones(2))


@program("", "optimize as a context manager around a module's call and around an exception")
def context_manager_raises(compile):
    m = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(m.weight)
    torch.nn.init.ones_(m.bias)

    def bad(x):
        raise KeyError("no")

    try:
        with dynamo.optimize("eager"):
            y = m(torch.ones(2))
            bad(y)
    except KeyError:
        return y, m(torch.ones(2))


@program("", "optimize as a context manager inside a compiled function")
def context_manager_inside(compile):
    @compile
    def f(x):
        with dynamo.optimize("eager"):
            return _g(x) + 1

    return f(torch.ones(2))


@program("", "disable as a context manager's neighbour: run() and disable inside compiled code")
def run_inside(compile):
    @compile
    def f(x):
        return dynamo.run(_g)(x) + dynamo.disable(_g)(x)

    return f(torch.ones(2))


@program("", "what optimize compiles as a context manager: the frames that begin inside, and no others")
def context_manager_graphs(compile):
    graphs = []

    def backend(gm, inputs):
        graphs.append(sum(n.op.startswith("call") for n in gm.graph.nodes))
        return gm.forward

    def f(x):
        return _g(x) + 1

    with dynamo.optimize(backend):
        f(torch.ones(2))
        f(torch.ones(2))
    f(torch.ones(3))
    with dynamo.optimize(backend), dynamo.optimize(backend):
        f(torch.ones(4))
    return graphs


@program("", "what is compiled is compiled again: functions, modules, in a loop, under several backends")
def compiled_again(compile):
    x = torch.ones(3)
    f, m = compile(compile(_g)), compile(compile(torch.nn.ReLU()))
    out = [f(x), m(x - 2), compile(compile(f))(x + 1), dynamo.optimize("eager")(f)(x), compile(dynamo.optimize("aot_eager")(_g))(x)]
    for i in range(12):
        out += [compile(lambda x, i=i: x * i)(x), compile(_g)(x)]

        @compile
        def h(x, k=i):
            return x * k

        out.append(h(x))
    return out


@program("", "the same context manager twice, nested and one after the other; disable and run within")
def context_manager_again(compile):
    @dynamo.disable
    def off(x):
        return _g(x)

    x, o = torch.ones(3), dynamo.optimize("eager")
    with o:
        a = _g(x)
        with o:
            b = _g(x + 1)
        c = off(x), compile(_g)(x), dynamo.run(_g)(x)
    with o, torch.no_grad():
        d = _g(x)
    return a, b, c, d, _g(x), torch.is_grad_enabled()


@program("", "decorators in every order")
def decorators(compile):
    @dynamo.optimize("eager")
    @dynamo.optimize("eager")
    def f(x):
        return x + 1

    @dynamo.disable
    @dynamo.optimize("eager")
    def h(x):
        return x + 2

    @dynamo.optimize("eager")
    @dynamo.disable
    def k(x):
        return x + 3

    x = torch.ones(3)
    return f(x), h(x), k(x), compile(f)(x), compile(h)(x), compile(k)(x)


@program("", "methods, static methods, class methods and properties are compiled where they are defined")
def methods(compile):
    class A:
        @compile
        def f(self, x):
            return x * 2

        @staticmethod
        @compile
        def s(x):
            return x + 1

        @classmethod
        @compile
        def c(cls, x):
            return x + 3

        @property
        @compile
        def p(self):
            return torch.ones(2) + 4

    @compile
    def all_of(a, x):
        return a.f(x) + A.s(x) + a.c(x) + A.f(a, x), a.p

    x = torch.ones(3)
    return A().f(x), A.s(x), A().s(x), A.c(x), A().p, all_of(A(), x)


@program("", "threads that call one compiled function, and threads that compile")
def threads(compile):
    import threading

    f, shared, own = compile(_g), [None] * 6, [None] * 6

    def work(i):
        mine = compile(lambda x: x.sin() + i)
        for _ in range(3):
            shared[i] = f(torch.full((i + 1,), float(i)))
            own[i] = mine(torch.ones(2))

    all_ = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in all_:
        t.start()
    for t in all_:
        t.join()
    return shared, own


@program("", "a context manager is of its thread; recursion; generators")
def threads_and_contexts(compile):
    import threading

    out, seen = [], []

    def backend(gm, inputs):
        seen.append(threading.current_thread().name)
        return gm.forward

    with dynamo.optimize(backend):
        t = threading.Thread(target=lambda: out.append(_g(torch.ones(2))), name="other")
        t.start()
        t.join()

    @compile
    def down(x, n):
        return x if n == 0 else down(x * 2, n - 1)

    @compile
    def rows(x):
        for i in range(3):
            yield x * i

    return out, seen, down(torch.ones(2), 3), down(torch.ones(2), 5), list(rows(torch.ones(2)))


class _PassesForInt:
    def __init__(self):
        self.value = 3

    @property
    def __class__(self):
        return int


@program("", "isinstance and __class__ of what passes for another type: a compiled function, a proxy")
def passes_for_another_type(compile):
    inner, proxy = dynamo.compile(_g, backend="eager"), _PassesForInt()

    @compile
    def f(x):
        asked = isinstance(inner, types.FunctionType), isinstance(inner, types.MethodType), inspect.isfunction(inner)
        also = isinstance(proxy, int), isinstance(proxy, _PassesForInt), isinstance(proxy, Hashable), proxy.__class__ is int
        return inner(x), asked, also, type(proxy).__name__, inner.__class__.__name__

    return f(torch.ones(2))
