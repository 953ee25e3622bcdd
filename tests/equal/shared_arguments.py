"""Arguments that share memory: what one counts and what is left of its history when another is written to."""

from __future__ import annotations

import itertools

import torch

from repro_corpus.program import program

MEMORY = {
    "plain": lambda: torch.linspace(-1, 1, 9).view(3, 3).clone(),
    "leaf": lambda: torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_(),
    "computed": lambda: torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_() * 1,
    "leaf that is a view": lambda: torch.linspace(-1, 1, 9).view(3, 3).requires_grad_(),
}
PARTS = {
    "whole": lambda m: m,
    "part": lambda m: m[1],
    "one of several": lambda m: m.unbind()[1],
    "closed": lambda m: torch.no_grad()(m.select)(0, 1),
}


def seen(t):
    try:
        return t.detach().clone(), t.requires_grad, t.is_leaf
    except RuntimeError as error:
        return str(error)[:50]


@program("", "what .data gives counts its own writes, also as a result, and passes don't mind them")
def results_that_are_data(compile):
    def of_argument(x):
        return x.data, x * 2

    def part_of_argument(x):
        return x.data[1:], x.exp()

    def of_result(x):
        y = x.exp()
        return y.data, y

    def written(x):
        z = x.data
        z.mul_(2)
        return z, x * 3

    def beside_detached(x):
        return x.data, x.detach(), x.sin()

    found = []
    for f, (kind, made), (part, of) in itertools.product(
        (of_argument, part_of_argument, of_result, written, beside_detached), MEMORY.items(), PARTS.items()
    ):
        m = made()
        x = of(m)
        data, *rest = compile(fullgraph=f is not written)(f)(x)  # a write to one of several views is a break
        before = [t._version for t in rest]
        data.add_(1)
        found.append((f.__name__, kind, part, m, m._version, x._version, data, [t._version - n for t, n in zip(rest, before, strict=True)]))
        for t in rest:
            if t.requires_grad:
                t.sum().backward()
        found.append(m.grad if m.is_leaf else None)
    return found


WRITES = {
    "no_grad": lambda p: torch.no_grad()(p.mul_)(3),
    "detached": lambda p: p.detach().add_(1),
    "data": lambda p: p.data.mul_(2),
    "twice": lambda p: (torch.no_grad()(p.mul_)(3), p.detach().add_(1)),
}


@program("", "what is read of one argument once another was written to, whose memory it shares")
def read_after_writes(compile):
    found = []
    for (kind, made), (first, of), (second, other), (how, write) in itertools.product(
        MEMORY.items(), PARTS.items(), PARTS.items(), WRITES.items()
    ):

        @compile
        def f(p, q, write=write):
            y = p.sum()
            write(q)
            return y, p._version, p.sum() * 2, q._version

        m = made()
        p, q = of(m), other(m)
        try:
            results = f(p, q)
        except RuntimeError as error:
            results = ()
            found.append(str(error)[:50])
        found.append((kind, first, second, how, [seen(t) for t in (m, p, q)], [t._version for t in (m, p, q)]))
        for t in results:
            found.append(seen(t) if isinstance(t, torch.Tensor) else t)
            if isinstance(t, torch.Tensor) and t.requires_grad and m.is_leaf:
                found.append(torch.autograd.grad(t, m, allow_unused=True)[0])
    return found
