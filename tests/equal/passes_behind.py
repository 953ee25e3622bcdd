"""Results that were computed from different arguments: what a pass from some of them gets to behind the graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program
from tests.equal.separate_histories import leaf, passes


def three_results(u, v, c):
    return u * u * c, (v * 3).exp() * c, u.sin() + v


def linked_results(u, v, c):
    y = u.sin() * c
    return y, y * y, v * v * 3


BEHIND: dict[str, Callable[..., Any]] = {
    "nothing in common": lambda u, v, c: (u * 2, v * 3, c.sin()),
    "something in common": three_results,
    "one behind another": linked_results,
}


def graphs(compile, functions) -> list[Callable[..., Any]]:
    return [compile(f, fullgraph=True) for f in functions]


def arguments() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    leaves = [leaf(), leaf(0.5, 1.0, 1.5), leaf(2.0, 2.0, 2.0)]
    return leaves, [leaves[0].exp(), leaves[1].sin(), leaves[2].sigmoid()]


@program("", "passes from one result do not ask for what only another was computed from, before the graph: it was written to, or freed")
def not_behind_the_result(compile):
    found = []
    for f in graphs(compile, BEHIND.values()):
        for n in range(3):
            for which in range(3):
                for free in (False, True):
                    leaves, given = arguments()
                    results = f(*given)
                    if free:
                        given[which].sum().backward()
                    else:
                        with torch.no_grad():
                            given[which].mul_(2)
                    try:
                        (results[n] * 2).sum().backward()
                        said = "ran"
                    except RuntimeError as e:
                        said = str(e)[:40]
                    if said == "ran":  # what a failed pass has done by then is not the same
                        found += [(n, which, free, said, [x.grad for x in leaves])]
                    else:
                        found += [(n, which, free, said)]
    return found


@program("", "a checkpoint before the graph runs again in passes from results that it is behind, and in no others")
def checkpoint_before(compile):
    ran = []

    def region(x):
        ran.append("region")
        return x.exp() * x.cos()

    found = []
    for f in graphs(compile, BEHIND.values()):
        for n in range(3):
            leaves, given = arguments()
            given[0] = checkpoint(region, leaves[0] * 1, use_reentrant=False)
            (f(*given)[n] * 2).sum().backward()
            found += [(n, ran[:], [x.grad for x in leaves])]
            ran.clear()
    return found


@program("", "hooks of what an argument was computed from, and of arguments, are called where a gradient comes to them")
def hooks_before(compile):
    found = []
    for f in graphs(compile, BEHIND.values()):
        for n in range(3):
            leaves, given = arguments()
            seen = []
            before = [t * 1 for t in given]
            given = [t + 1 for t in before]
            for i, t in enumerate([*leaves, *before, *given]):
                t.register_hook(lambda g, i=i: seen.append((i, g)))
            given[1].retain_grad()
            (f(*given)[n] * 2).sum().backward()
            found += [(n, sorted(i for i, _ in seen), [g for _, g in sorted(seen, key=lambda s: s[0])], given[1].grad)]
    return found


@program("", "gradients that are asked for one argument at a time, with a history of their own, and for some results together")
def asked_in_parts(compile):
    found = []
    for f in graphs(compile, BEHIND.values()):
        for ends in ((0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)):
            leaves, given = arguments()
            results = f(*given)
            end = sum((results[i] * (i + 1)).sin().sum() for i in ends)
            for t in (*given, *leaves):
                (first,) = torch.autograd.grad(end, t, create_graph=True, allow_unused=True)
                second = ()
                if first is not None and first.requires_grad:
                    second = torch.autograd.grad(first.sum(), leaves, allow_unused=True, retain_graph=True)
                found += [(ends, first, second)]
            end.backward(inputs=[leaves[2], given[0]])
            found += [[x.grad for x in leaves]]
    return found


@program("", "passes of many gradients at once, after a pass that keeps nothing, and of a graph that nobody else holds")
def unusual_passes(compile):
    (f,) = graphs(compile, [three_results])
    leaves, given = arguments()
    results = f(*given)
    found = [torch.autograd.grad(results[0], leaves[0], torch.eye(3), is_grads_batched=True, retain_graph=True)]
    found += [passes(results, "cCc"), passes(results, "ab"), [x.grad for x in leaves]]
    leaves, given = arguments()
    results = f(*given)
    alive = [weakref.ref(t) for t in (*given, *results)]
    results[1].sum().backward()
    del given, results
    return found, [x.grad for x in leaves], [t() is None for t in alive]


class Both(torch.autograd.Function):
    """Gets zeros for gradients that are missing."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * 2, b * b

    @staticmethod
    def backward(ctx, g, h):
        _, b = ctx.saved_tensors
        return g * 2, h * 2 * b


def in_one_function(u, v, c):
    a, b = Both.apply(u, v)
    return a + 1, b * c, c.sin()


def in_one_region(u, v, c):
    a, b = checkpoint(lambda p, q: (p.sin() * 2, q.cos() * 3), u, v, use_reentrant=True)
    return a + 1, b + c, c.sin()


def beside_a_region(u, v, c):
    a = checkpoint(lambda p, q: p.sin() * 2, u, v, use_reentrant=True)
    return a + 1, v * c, c.sin()


def written_argument(u, v, c):
    v.mul_(2)
    return u * v, v.sin(), c * 3


def one_of_several(u, v, c):
    a, b, d = torch.stack((u, v, c)).unbind(0)
    return a, b * 2, d.sin()


def written_view(u, v, c):
    u = u * 1
    u[0] = v[1]
    return u[1:] * 2, v * 3, c * u


MADE_TOGETHER = (in_one_function, in_one_region, beside_a_region, written_argument, one_of_several, written_view)


@program("", "results of one operation, checkpoint or write: which gradients are zeros, which are missing, and which hooks are called")
def made_together(compile):
    found = []
    for f in graphs(compile, MADE_TOGETHER):
        for order in ("a", "b", "c", "ab", "cb", "ca", "bA"):
            leaves, given = arguments()
            seen = []
            for i, t in enumerate((*leaves, *given)):
                t.register_hook(lambda g, i=i: seen.append((i, g)))
            said = passes([r * 2 for r in f(*given)], order)
            ran = len(set(said)) == 1  # what a failed pass has done by then is not the same
            found += [(order, said, ran and [sorted(i for i, _ in seen), [x.grad for x in leaves]])]
    return found


@program("", "what refuses to run for some arguments alone says so")
def asked_of_regions(compile):
    found = []
    for f in graphs(compile, (in_one_region, beside_a_region)):
        for n in range(3):
            leaves, given = arguments()
            results = f(*given)
            for wanted in ([given[0]], leaves):
                try:
                    torch.autograd.grad((results[n] * 2).sum(), wanted, retain_graph=True, allow_unused=True)
                    found += [(n, "ran")]
                except RuntimeError as e:
                    found += [(n, str(e)[:60])]
    return found


@program("", "every result of a re-entrant checkpoint needs a gradient if an argument does, whatever it was computed from")
def region_with_plain_argument(compile):
    @compile
    def f(u, v):
        a, b = checkpoint(lambda p, q: (p * 2, q.sin()), u, v, use_reentrant=True)
        return a, b, (b * 3).requires_grad

    found = []
    for n in range(2):
        u, v = leaf(), leaf().detach()
        a, b, needs = f(u * 1, v)
        (a * b).sum().backward()
        found += [(a.requires_grad, b.requires_grad, needs, u.grad)]
    return found


@program("", "a re-entrant checkpoint that nothing is computed from asks for nothing, and one that is not on the way does not refuse")
def region_on_the_side(compile):
    @compile(fullgraph=True)
    def unused(x):
        checkpoint(lambda p: p.sin() * p, x, use_reentrant=True)
        return x * 1, x + 1

    @compile(fullgraph=True)
    def beside(x, y):
        a, b = checkpoint(lambda p, q: (p.sin() * q, q * p), x, x, use_reentrant=True)
        return (a + y) * 2, b * y

    found = []
    for n in range(2):
        x, y = leaf(), leaf(2.0, 1.0, 0.5)
        result = unused(x)[n]
        with torch.no_grad():
            x.mul_(2)
        (result * 3).sum().backward()
        found += [x.grad]
        result = (beside(x, y)[n] * 2).sum()
        for of in (y, x):
            try:
                found += [torch.autograd.grad(result, of, retain_graph=True)]
            except RuntimeError as e:
                found += [str(e)[:30]]
    return found


@program("", "passes that are asked for some arguments run, and free, what leads there")
def asked_for_some(compile):
    @compile(fullgraph=True)
    def f(v, w):
        return v + w, w * 1.0

    found = []
    for first in ((0, 1), (1,)):
        leaves, (v, w, _) = arguments()
        results = f(v, w)
        passed = sum((results[i] * 2).sum() for i in first)
        found += [torch.autograd.grad(passed, w if first == (1,) else v)]
        found += [torch.autograd.grad((results[0] * 3).sum() + (results[1] * 5).sum(), v)]
        try:
            (slope,) = torch.autograd.grad((results[1] ** 2).sum(), w, create_graph=True)
            slope.sum().backward()
            found += [slope, leaves[1].grad]
        except RuntimeError as e:
            found += [str(e)[:30]]
    return found


VIEWS = (
    lambda x: ((x * 2).t(), lambda p: p.t()),
    lambda x: (x.t(), lambda p: p[1:]),
    lambda x: ((x * 2)[1:], lambda p: p.unbind()[0]),
    lambda x: ((x * 2).t(), lambda p: (p.t(), p.t()[1:], p.t().sin())),
)


@program("", "a gradient for a view of a result goes on to that, at which a hook, `retain_grad` or `autograd.grad` looks")
def views_of_results(compile):
    found = []
    for make in VIEWS:

        def f(x, make=make):
            p, view = make(x)
            q = view(p)
            return (*q, p) if isinstance(q, tuple) else (q, p)

        f = compile(f, fullgraph=True)
        for n in range(3):
            x = torch.arange(6.0).view(2, 3).requires_grad_()
            *views, p = f(x * 1)
            seen = []
            if n == 0:
                p.register_hook(lambda g: seen.append(g * 1))
            elif n == 1:
                p.retain_grad()
            end = sum((v * (k + 3)).sin().sum() for k, v in enumerate(views)) + (p.exp() if n else p * p).sum()
            if n == 2:
                seen += torch.autograd.grad(end, p, retain_graph=True)
            end.backward()
            found += [seen, x.grad, p.grad if n == 1 else None, [v._is_view() for v in views]]
    return found
