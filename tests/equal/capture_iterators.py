"""Iterators that live across a break, or come in from outside; and what is one graph since it needs no value of a tensor."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program


@program("", "iterators over a range, a list, a dict and a set, and their enumeration, cross a break")
def plain_iterators_over_break(compile):
    @compile
    def f(xs, d):
        its = iter(range(2, 9, 2)), iter(xs), iter(d), iter(d.values()), enumerate(xs, 3), zip(range(3), xs), reversed(xs)
        first = [next(it) for it in its]
        print("broken")
        second = [next(it) for it in its]
        return first, second, [list(it) for it in its]

    return f([torch.ones(2), torch.zeros(2), torch.full((2,), 3.0)], {"a": torch.ones(1), "b": 2, "c": 3})


@program("", "an iterator over a list sees what is appended behind a break")
def list_grows(compile):
    @compile
    def f(xs):
        it = iter(xs)
        first = next(it) + 1
        print("broken")
        xs.append(first * 2)
        return first, [x + 1 for x in it]

    xs = [torch.ones(2), torch.zeros(2)]
    return f(xs), xs


@program("", "a generator expression and a generator function cross a break")
def generators_over_break(compile):
    def numbers(x):
        for i in range(4):
            x = x + i
            yield x

    @compile
    def f(x):
        g, e = numbers(x), (x * i for i in range(3))
        first = next(g) + next(e)
        print("broken")
        return first, list(g), list(e)

    return f(torch.ones(2)), f(torch.zeros(3))


@program("", "iterators over lists, ranges and dicts come in and go on outside")
def iterators_come_in(compile):
    @compile
    def f(its, x):
        return [next(it) * x for it in its]

    its = [iter([1, 2, 3]), iter(range(3)), iter({4: 5, 6: 7}), enumerate([1]), (i for i in range(5)), map(abs, [-1, -2])]
    numbers = [its[0], its[1], its[2], its[4], its[5]]
    return f(numbers, torch.ones(2)), f(numbers, torch.ones(2)), [list(it) for it in its]


@program("", "in one graph: sums of tensors, any and all of known values, legacy constructors, functions under script_if_tracing")
def one_graph(compile):
    @torch.jit.script_if_tracing
    def scripted(x, n: int):
        for _ in range(n):
            x = x * 2
        return x

    @compile(fullgraph=True)
    def f(x):
        a = sum([x, x * 2]) + sum([x, x], start=x) + sum(x)
        b = x + any([False, x.dim() > 4, 0]) + all([x.shape[0] > 1, "yes"])
        return a, b, x.new(2, 3).fill_(1), torch.Tensor(2).zero_(), x.new(x.shape).zero_(), torch.Tensor([1, 2]), scripted(x, 3)

    return f(torch.arange(3.0)), f(torch.ones(2))


@program("", "in one graph: lazy modules that have their shapes")
def lazy_one_graph(compile):
    m = nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(3))
    m(torch.ones(2, 2, 5, 5))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    c = compile(m, fullgraph=True)
    x = torch.arange(100.0).view(2, 2, 5, 5)
    out = [c(x) for _ in range(3)]
    return out, m[1].running_mean, [type(k).__name__ for k in m]
