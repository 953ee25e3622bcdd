"""`torch.cond` in graphs: structures, closures, gradients, nesting, constraints. Captured ones are compiled with `fullgraph`.

Eager runs `torch.cond` by torch's own compiler, which takes seconds to load. So eager gets the `if` that it stands for, except where the
difference matters (`higher_order.py`).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


def either(predicate, when_true, when_false, operands=()):
    if torch.compiler.is_compiling():
        return torch.cond(predicate, when_true, when_false, operands)
    return (when_true if predicate else when_false)(*operands)


def both_ways(f, *more):
    """Results and gradients for both signs, twice."""
    out = []
    for sign in (1.0, -1.0, 1.0):
        x = (torch.arange(1.0, 4.0) * sign).requires_grad_()
        y = f(x, *more)
        leaves = torch.utils._pytree.tree_leaves(y)
        sum((t.sin().sum() for t in leaves if t.is_floating_point()), x.sum()).backward()
        out.append((y, x.grad))
    return out


@program("", "one tensor, a list, a tuple in a dict")
def structures(compile):
    def plus(p):
        return {"s": p["u"] + p["v"][0], "t": (p["v"][0] * 2,)}

    @compile(fullgraph=True)
    def f(x):
        h = x * 2
        a = either(h.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (h,))
        b, c = either(h.mean() > 1, lambda a: [a + 1, a.sum()], lambda a: [a - 1, a.amax()], [h])
        d = either(
            h[0] > 0, lambda p: {"s": p["u"] + a, "t": (p["v"][0] * 2,)}, lambda p: {"s": p["u"] - a, "t": (a * 3,)}, ({"u": h, "v": (x,)},)
        )
        return a, b, c, d

    return both_ways(f)


@program("", "numbers of other types, a predicate of one dimension, and results without gradients")
def kinds(compile):
    @compile(fullgraph=True)
    def f(x):
        n = x.long()
        a = either((x > 0)[:1], lambda n: n + 1, lambda n: n * 2, (n,))
        b = either(x.sum(), lambda x: (x > 1, x.t() + 0), lambda x: (x > 2, x * x), (x,))
        return a, b

    return both_ways(f)


@program("", "closures, globals, parameters and constants that the branches read")
def closures(compile):
    lin = nn.Linear(3, 3)
    nn.init.constant_(lin.weight, 0.5)
    nn.init.constant_(lin.bias, 0.1)
    scale = torch.full((3,), 2.0, requires_grad=True)

    @compile(fullgraph=True)
    def f(x, n):
        h = x.sin()
        y = either(h.sum() > 0, lambda a: lin(a) * scale * n + h, lambda a: lin(a) * scale * h + torch.tensor([1.0, 2.0, 3.0]), (h,))
        return y * x

    return both_ways(f, 3), lin.weight.grad, scale.grad, both_ways(f, 4)


@program("", "conditions in branches, in both, and after one another")
def nested(compile):
    @compile(fullgraph=True)
    def f(x):
        w = x.exp()

        def inner(a):
            return either(a.sum() > 3, lambda a: a * w, lambda a: a * 3 + w, (a,))

        y = either(x.sum() > 1, inner, lambda a: either(a[1] < -1, lambda: a * 2 + w, lambda: a - w), (x,))
        return either(y.sum() > 2, lambda: y.sin(), lambda: y + x)

    return both_ways(f), [f(torch.full((3,), v)) for v in (0.1, 0.5, -0.5, 4.0)]


@program("", "intermediates that a branch writes to, views, and a branch under no_grad")
def inside(compile):
    def wrote(a):
        b = a.clone()
        b[1:] += a[:-1]
        b.mul_(2)
        return b.view(3, 1)

    def quiet(a):
        with torch.no_grad():
            c = a * 2
        return (a * c).unsqueeze(1)

    @compile(fullgraph=True)
    def f(x):
        return either(x.sum() > 0, wrote, quiet, (x * 1,))

    return both_ways(f)


@program("", "a number of Python as predicate, modules as branches, under no_grad, after a condition on a shape")
def folded(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 2)
            for p in self.parameters():
                nn.init.constant_(p, 0.5)
            nn.init.constant_(self.b.weight, 0.25)

        def forward(self, x, flag):
            y = either(x.sum() > 1, self.a, self.b, (x,))
            return either(flag, lambda: y + 1, lambda: y[:1]), either(x.shape[0] > 2, lambda a: a, lambda a: a * 2, (x,))

    m = M()
    f = compile(m, fullgraph=True)
    with torch.no_grad():
        a = [f(torch.ones(n, 3), flag) for n in (1, 3) for flag in (True, 0.0)]
    return a, both_ways(lambda x: f(x.view(1, 3), True)[0])


@program("", "a branch whose operator refuses its values, and a wrapped optimisation step")
def refusing(compile):
    table = torch.arange(5.0).requires_grad_()

    @compile(fullgraph=True)
    def f(i):
        return either(i.sum() > 0, lambda i: table.gather(0, i), lambda i: table[:2] * 2.0, (i,))

    out = []
    for i in ([1, 2], [-1, 0], [3, 9]):
        try:
            y = f(torch.tensor(i))
            y.sum().backward()
            out.append(y)
        except (RuntimeError, IndexError) as e:
            out.append(type(e))
    return out, table.grad


@program("", "what cond refuses or a graph can't hold is eager's: random numbers, effects, prints, outer objects")
def native(compile):
    seen = []

    def noted(a):
        seen.append(1)
        return a + 1

    @compile
    def f(x, flag):
        y = x * 2
        return either(flag, noted, lambda a: a * 2, (y,)), len(seen)

    return f(torch.ones(3), True), f(torch.ones(3), False), seen


@program("", "in a checkpoint, in both directions of an autograd.Function, and around a checkpoint")
def regions(compile):
    class Chosen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return either(x.sum() > 0, lambda a: a * 2, lambda a: a * 3, (x,))

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return either(x.sum() > 0, lambda g: g * 2, lambda g: g * 3, (grad,))

    def chosen(x):
        return either(x.sum() > 0, lambda a: a.sin(), lambda a: a.exp(), (x * 2,)) * x

    def kept(x):
        return checkpoint(lambda a: a.sin() * x, x, use_reentrant=False)

    @compile(fullgraph=True)
    def f(x):
        return checkpoint(chosen, x.cos(), use_reentrant=False), either(x.sum() > 0, kept, lambda a: a * x, (x,))

    return both_ways(f), both_ways(compile(lambda x: Chosen.apply(x * 1) + 1))


@program("", "with gradients, in a block without inference mode below inference mode")
def in_a_block_without_inference_mode(compile):
    @compile
    def f(x):
        with torch.inference_mode(False):
            y = x.sin()
            return either(x.sum() > 0, lambda s, t: s.sin() * t, lambda s, t: s - t, (x, y))

    found = []
    for sign in (1.0, -1.0):
        x = (torch.arange(1.0, 4.0) * sign).requires_grad_()
        with torch.inference_mode():
            y = f(x)
        y.sum().backward()
        found.append((y, x.grad))
    return found
