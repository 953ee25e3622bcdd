"""Results that a graph writes to in place, and gradients of other results for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


def through_a_view(x):
    z = torch.zeros(3, 3) + 0.5
    z.t().add_(x)
    return torch.cos(z), z


def directly(x):
    z = x + 0.5
    z.mul_(x)
    return torch.cos(z), z


def part(x):
    z = x + 0.5
    z[0] = x[0].exp()
    return torch.cos(z), z


def into_zeros(x):
    z = torch.zeros(3, 3)
    z[1:].copy_(x[1:])
    return z * x, z


def through_a_kept_view(x):
    z = x + 0.5
    row = z[0]
    row.mul_(x[0])
    return torch.cos(row) + z.sum(0), z, row


def view_of_an_older_value(x):
    z = x * 1.0
    row = z[0]
    z[1].mul_(2)
    return row * 3, z


def older_value(x):
    z = x * 1.0
    y = z * 3
    z.t().mul_(2)
    return y, z


def between_two_writes(x):
    z = x * 1.0
    z[0] = 1
    y = z * 3
    z[1].mul_(2)
    return y + z.exp(), y, z


def view_given(x):
    base = x * 1.0
    z = base[0]
    z.mul_(2)
    return base * 2, z


def base_written(x):
    base = x * 1.0
    z = base[0]
    base.mul_(2)
    return z * 2, base, z


def result_written_in(x):
    q = x * 2
    z = torch.zeros(3, 3)
    z[0] = q[0]
    return z, q


def result_written_through(x):
    q = x * 2
    z = q.exp()
    z[0].mul_(q[0])
    return z.sin(), z, q


def behind_detached(x):
    base = x * 1.0
    base.detach().mul_(2)
    return base * 2, base


def made_in_a_region(x):
    def region(s):
        z = s * 2
        return z, z.exp()

    z, y = checkpoint(region, x, use_reentrant=False)
    z[0] = x[0]
    return y + z, z, y


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    through_a_view,
    directly,
    part,
    into_zeros,
    through_a_kept_view,
    view_of_an_older_value,
    older_value,
    between_two_writes,
    view_given,
    base_written,
    result_written_in,
    result_written_through,
    behind_detached,
    made_in_a_region,
)


def outcome(run: Callable[[], list[Any]]) -> Any:
    try:
        return run()
    except RuntimeError as e:
        return str(e)[:60]


def leaf():
    return torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()


def weighted(t):
    return (t * torch.linspace(1, 2, t.numel()).view(t.shape)).sum()


def asked(f, creates):
    x = leaf()
    end, *others = f(x)
    found = torch.autograd.grad(weighted(end), [*others, x], create_graph=creates, allow_unused=True)
    if creates:
        found += torch.autograd.grad([weighted(g.exp()) for g in found if g is not None and g.requires_grad], x, allow_unused=True)
    return [None if g is None else g.detach() for g in found]


def looked_at(f):
    x = leaf()
    end, *others = f(x)
    seen: list[list[Any]] = [[] for _ in others]
    for t, came in zip(others, seen, strict=True):
        t.retain_grad()
        t.register_hook(lambda g, came=came: came.append(g.clone()) or g * 2)
    weighted(end).backward(retain_graph=True)
    return [seen, [t.grad for t in (*others, x)]]


@program("", "gradients of one result for another one that the graph wrote to are those for what it is in the end, from what read it since")
def asked_for(compile):
    return [
        [outcome(lambda g=g, creates=creates: asked(g, creates)) for creates in (False, True)]
        for g in [compile(f, fullgraph=True) for f in FUNCTIONS]
    ]


@program("", "hooks of results that a graph wrote to, and gradients kept there, see what comes back from what was computed from them since")
def hooked(compile):
    return [outcome(lambda g=g: looked_at(g)) for g in [compile(f, fullgraph=True) for f in FUNCTIONS]]


def written_argument(x, w):
    y = w[0]
    w.mul_(x)
    return y * 3, w * 2


def written_through_a_view(x, w):
    row = w[1]
    w.t().mul_(x)
    row.add_(1)
    return row.exp() + w.sum(0), w.sin()


@program("", "a view of an argument, read since the argument was written: gradients kept at the argument are those of its new history")
def views_of_arguments(compile):
    found = []
    for f in (written_argument, written_through_a_view):
        g = compile(f, fullgraph=True)
        x, w = leaf(), leaf() * 1
        first, second = g(x, w)
        w.retain_grad()
        second.retain_grad()
        (weighted(first) + weighted(second)).backward()
        found.append([x.grad, w.grad, second.grad])
    return found


@program("", "a re-entrant checkpoint is one operation: none of its results is computed from another one")
def results_of_a_region(compile):
    @compile(fullgraph=True)
    def f(x):
        def region(s):
            inner = s.sin()
            return inner, inner.exp()

        first, second = checkpoint(region, x, use_reentrant=True)
        return first, second, second * 2

    x = leaf()
    results = f(x)
    for t in results:
        t.retain_grad()
    weighted(results[2]).backward()
    return [t.grad for t in (*results, x)]
