"""Objects that are no tensors and have a `__torch_function__`, as arguments of torch's functions, in one graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def plain(v):
    if isinstance(v, (list, tuple)):
        return type(v)(plain(x) for x in v)
    return v.t if isinstance(v, (Like, Declines)) else v


class Like:
    """Its functions give an instance, and note what was called."""

    seen: list = []

    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Like.seen.append((func.__name__, [t.__name__ for t in types], kwargs is None))
        return cls(func(*plain(args), **(kwargs or {})))


class Below(Like):
    """Comes before its base."""


class Declines:
    t = torch.full((2,), 0.5)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def seen():
    found, Like.seen = Like.seen, []
    return found


@program("", "C functions: an instance made inside, and one that comes in")
def c_functions(compile):
    @compile(fullgraph=True)
    def f(x, y):
        a = torch.mul(Like(x + 1), 2).t
        return a, torch.add(y, x, alpha=2).t, torch.cat([x, y.t]), torch.stack([x, y], dim=0).t

    return f(torch.ones(2), Like(torch.ones(2))), f(torch.ones(3), Like(torch.zeros(3))), seen()


@program("", "functions of torch that are written in Python")
def python_functions(compile):
    @compile(fullgraph=True)
    def f(x, y):
        return F.relu(y).t, F.softmax(y, dim=0).t, F.linear(x, y).t, torch.einsum("i,i->i", y, x).t

    return f(torch.ones(2), Like(torch.ones(2))), seen()


@program("", "methods and operators of a tensor whose other operand has one")
def methods(compile):
    @compile(fullgraph=True)
    def f(x, y):
        return x.add(y).t, (x * y).t, (x - y).t, x.where(x > 0, y).t, (x @ y).t, (x > y).t

    return f(torch.ones(2), Like(torch.ones(2))), seen()


@program("", "a subclass is asked before its base, and who declines is passed over")
def precedence(compile):
    @compile(fullgraph=True)
    def f(x, y, d):
        a, b = torch.add(x, y), torch.add(y, x)
        return type(a).__name__, type(b).__name__, a.t + b.t, torch.maximum(d, y).t

    return f(Like(torch.ones(2)), Below(torch.ones(2)), Declines()), seen()


@program("", "all decline: TypeError")
def all_decline(compile):
    @compile
    def f(x, d):
        try:
            return torch.add(x, d)
        except TypeError:
            return x + 1

    return f(torch.ones(2), Declines())


@program("", "a handler that computes something else, with gradients")
def other_meaning(compile):
    class Swapped:
        def __init__(self, t):
            self.t = t

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.add:
                return torch.mul(*[a.t if isinstance(a, cls) else a for a in args])
            if func is torch.nn.functional.relu:
                return args[0].t.sigmoid()
            return NotImplemented

    @compile(fullgraph=True)
    def f(x):
        return torch.add(Swapped(x), x) + F.relu(Swapped(x * 2))

    x = torch.arange(3.0, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad


@program("", "a library function of the program with has_torch_function and handle_torch_function")
def own_public_function(compile):
    def double(x):
        if torch.overrides.has_torch_function((x,)):
            return torch.overrides.handle_torch_function(double, (x,), x)
        return x * 2

    @compile(fullgraph=True)
    def f(x, y):
        return double(x), double(y).t

    return f(torch.ones(2), Like(torch.ones(2))), seen()


@program("", "an instance that is returned, and whose class changes what it does between calls")
def patched_handler(compile):
    class Own(Like):
        pass

    @compile(fullgraph=True)
    def f(x):
        return torch.neg(Own(x))

    first = f(torch.ones(2))
    Own.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: args[0].t * 10)
    return first.t, type(first).__name__, f(torch.ones(2)), seen()
