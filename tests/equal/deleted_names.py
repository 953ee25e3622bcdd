"""Names that are gone: closure variables, locals and globals deleted between calls, inside, and behind a break."""

from __future__ import annotations

import torch

from repro_corpus.program import program


def tried(f, *args):
    try:
        return f(*args)
    except NameError as e:
        return type(e).__name__, str(e), e.name, e.__traceback__.tb_next is None


@program("", "a closure variable is deleted, and comes back")
def closure_between_calls(compile):
    k = 2

    @compile
    def f(x):
        return x * k

    @compile
    def g(x):
        try:
            return x * k
        except NameError as e:
            return x - 1, type(e).__name__, str(e)

    x = torch.ones(3)
    out = [f(x), g(x)]
    del k
    out += [tried(f, x)[:3], g(x), tried(f, x)[:3]]
    k = 3
    return [*out, f(x), g(x)]


@program("", "a function deletes its closure variable, before and behind a break")
def closure_inside(compile):
    k, m = 2, 3

    @compile
    def f(x):
        nonlocal k
        y = x * k
        del k
        return y

    @compile
    def g(x):
        nonlocal m
        y = x * m
        print("broken")
        del m
        try:
            y = y + m
        except NameError as e:
            y = y - 1, type(e).__name__, str(e)
        print("again")
        del m  # noqa: F821  # it is gone

    x = torch.ones(3)
    return f(x), tried(f, x)[:3], tried(g, x)[:3], tried(g, x)[:3], tried(lambda: k)[:3]


@program("", "cells of the function's own, read before they are bound and after they are deleted")
def own_cells(compile):
    @compile
    def f(x, early):
        def inner():
            return x * scale  # noqa: F821  # bound later

        if early:
            return inner()
        scale = 2
        y = inner()
        print("broken")
        del scale
        return y + inner()

    @compile
    def g(x):
        y = x + 1
        del x
        print("broken")
        return (lambda: y)() + x  # noqa: F821  # it is gone

    x = torch.ones(3)
    return tried(f, x, True)[:3], tried(f, x, False)[:3], tried(g, x)[:3]


@program("", "a comprehension and a nested function over a deleted name behind a break; globals")
def nested(compile):
    namespace = {"torch": torch, "k": 2}
    exec("def g(x):\n    global k\n    y = x * k\n    print('broken')\n    del k\n    return y + k\n", namespace)
    n = 3

    @compile
    def h(x, go):
        nonlocal n
        y = [x * n for _ in range(2)]
        print("broken")
        if go:
            del n
        return y, [x + n for _ in range(2)]

    g, x = compile(namespace["g"]), torch.ones(3)
    return tried(g, x)[:3], "k" in namespace, tried(g, x)[:3], h(x, False), tried(h, x, True)[:3], tried(h, x, False)[:3]
