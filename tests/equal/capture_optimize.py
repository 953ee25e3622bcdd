"""Compilers within compilers: `optimize` inside `optimize`, inside `disable`, and as a context manager."""

from __future__ import annotations

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
