"""Python's `min` and `max` of tensors: in the graph where nobody can tell that one of the arguments itself comes out, else a break."""

from __future__ import annotations

import math

import torch

from repro_corpus.program import program

ROWS = [(2.0, 3.0), (5.0, 3.0), (3.0, 3.0), (math.nan, 1.0), (1.0, math.nan), (-0.0, 0.0), (0.0, -0.0), (math.inf, -math.inf)]


def rows(f, *, fresh=True):
    """Results of calls with every pair, and what the arguments hold then."""
    out = []
    for a, b in ROWS:
        a, b = torch.tensor(a), torch.tensor(b)
        out.append((f(a, b), a, b))
    return out


@program("", "of two and of three tensors, of lists, tuples, generators and vectors, in one graph")
def one_graph(compile):
    @compile(fullgraph=True)
    def f(a, b):
        many = [a * 2, b + 1, a - b]
        x = torch.arange(3.0)
        return (
            max(a, b) * 2,
            min(many) + 1,
            x - max(*many),
            -min(t for t in many),
            max(torch.stack(many)) + x,
            torch.sqrt(max(a, b)),
            x > min(a, b),
        )

    return rows(f)


@program("", "numbers among the tensors: beside tensors of the same type it makes no difference which one it is")
def numbers(compile):
    @compile(fullgraph=True)
    def f(a, b):
        x = torch.arange(3.0)
        return (
            x / max(a, 1e-12),
            x * min(1, a),
            max(0.5, a, b) * x,
            x + min(a, 0.1, b),
            x > max(0, a),
            x - max(min(a, 3), -2.5),
            x.mul(2) * max(b, 1),
        )

    return rows(f)


@program("", "numbers among the tensors, and the result is seen: a tensor or a number, as in eager")
def numbers_seen(compile):
    @compile
    def f(a, b):
        m = max(a, 2.5)
        return m, m * 2, isinstance(m, torch.Tensor), 1 / min(b, 1) * torch.ones(2), torch.ones(2, dtype=torch.int64) * max(a, 1)

    return rows(f)


@program("", "key= and default=")
def keys(compile):
    @compile(fullgraph=True)
    def f(a, b):
        x, y = torch.stack([a, b]), torch.stack([b, b])
        c = (
            max(a, b, key=lambda t: -t) + 1,
            min([a, b], key=abs) * 2,
            max([x, y], key=torch.sum) + 1,
            max([x, y, x * y], key=lambda t: t[0]) * 2,
        )
        return *c, max([], default=a) + 1, min([a, b], default=None) + 1, max([x, x.repeat(2)], key=len) * 2, max([a, b], key=None) + b

    return rows(f)


@program("", "the result is one of the arguments: identity, aliases, writes, attributes")
def identity(compile):
    @compile
    def returned(a, b):
        return max(a, b), [min(a, b)]

    @compile
    def compared(a, b):
        m = max(a, b)
        return m is a, m is b, m in (b,), {m: 1}.get(a), a in {m, 1}, id(m) == id(a), [m, a].index(b) if m is b else 0

    @compile
    def written(a, b):
        max(a, b).add_(1)
        m = min(a, b)
        m *= 2
        return a + b

    @compile
    def viewed(a, b):
        v = max(a, b).view(1)
        v[0] = 7
        return v, torch.atleast_1d(min(a, b)).add_(1)

    @compile
    def kept(a, b):
        b.best = max(a, b)
        return b.best + 1

    out = []
    for f in (returned, compared, written, viewed, kept):
        for row, a, b in rows(f):
            out.append((row, a, b))
    same = [returned(a, b)[0] is a for a, b in ((torch.tensor(2.0), torch.tensor(1.0)), (torch.tensor(1.0), torch.tensor(2.0)))]
    return out, same


@program("", "an argument is written to after the choice, through itself and through a view")
def written_later(compile):
    @compile(fullgraph=True)
    def f(a, b):
        m = max(a, b)
        x = m + 0
        a.add_(10)
        y = m + 0
        b.view(1).mul_(-3)
        return x, y, m * 1

    return rows(f)


@program("", "the choice lives across a break, in a branch, in a closure and as an argument")
def lives_on(compile):
    @compile
    def f(a, b):
        m = max(a, b)
        print("broken")
        n = min(a, b)
        if n > 1:
            return m + n
        return (lambda: m - n)()

    @compile
    def g(a, b):
        def inner(t, *, u):
            return t * u

        return inner(max(a, b), u=min(a, b)), [t * 2 for t in (max(a, b), a)], float(max(a, b))

    return rows(f), rows(g)


@program("", "gradients flow to the argument that it is, and to no other")
def gradients(compile):
    @compile
    def f(a, b):
        return max(a, b) * 2

    @compile
    def g(a, b):
        t = a * b
        return max(t.sin(), t * 2, t - 1) * 2 + a

    @compile
    def h(a, b):
        with torch.no_grad():
            m = max(a, b)
        return m * a

    @compile
    def k(a, b):
        return a / max(a.detach(), 0.1) + b * min(a.detach(), b.detach())

    out = []
    for fn in (f, g, h, k):
        for a, b in ROWS:
            a, b = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
            y = fn(a, b)
            y.backward()
            out.append((y, a.grad, b.grad))
    return out


@program("", "dtypes and shapes differ, several elements are ambiguous, nothing is compared")
def mixed(compile):
    @compile
    def f(a, b):
        return max(a, b.double()) + 1, min(a, b.view(1)) + 1, max(a.view(1, 1), b.view(1, 1)) + 1, max(a.view(1), b.view(1)) + a

    @compile
    def ambiguous(x, y):
        return max(x, y)

    @compile
    def wrong(kind, x):
        if kind == 0:
            return max([])
        if kind == 1:
            return max(x, x, default=1)
        if kind == 2:
            return max(x, "a")
        return min(x[0])

    out = [rows(f)]
    for call in (lambda: ambiguous(torch.ones(3), torch.zeros(3)), *(lambda kind=kind: wrong(kind, torch.ones(2)) for kind in range(4))):
        try:
            out.append(call())
        except (ValueError, RuntimeError, TypeError) as e:
            out.append((type(e).__name__, str(e)))
    return out


@program("", "integers, half precision and bool")
def kinds(compile):
    @compile(fullgraph=True)
    def f(a, b):
        x = torch.ones(2, dtype=a.dtype)
        return max(a, b) + x, x + min(a, b), max(a, b) == x

    types = (torch.int64, torch.int8, torch.bool, torch.float16, torch.bfloat16, torch.float64)
    return [f(torch.tensor(a).to(t), torch.tensor(b).to(t)) for t in types for a, b in ((1, 2), (3, 0), (0, 0))]


@program("", "largest of several losses, smallest of several distances, in a loop")
def loops(compile):
    @compile(fullgraph=True)
    def f(xs, y):
        best = (xs[0] - y).norm()
        for x in xs[1:]:
            best = min(best, (x - y).norm())
        worst = max((x - y).abs().max() for x in xs)
        return y / best + worst, y / max(best, 1e-6)

    torch.manual_seed(0)
    return f([torch.randn(3) for _ in range(5)], torch.zeros(3)), f([torch.ones(3)] * 3, torch.ones(3))
