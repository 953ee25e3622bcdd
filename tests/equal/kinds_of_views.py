"""Inputs that differ in being views, and of what: the flags of views made under `no_grad`, and what passes refuse after a write."""

from __future__ import annotations

import itertools

import torch

from repro_corpus.program import program


def leaves():
    """Leaves alike but for being views, and of what: of nothing, of what needs no gradient; and a parameter of a view."""
    return (
        torch.arange(9.0).reshape(3, 3).clone().requires_grad_(),
        torch.arange(9.0).view(3, 3).requires_grad_(),
        torch.nn.Parameter(torch.arange(9.0).view(3, 3)),
    )


@program("", "a view under no_grad takes its flag from the base of a leaf that is a view")
def flags_of_views_of_leaves(compile):
    found = []
    for order in itertools.permutations(range(3), 2):

        @compile
        def f(x):
            with torch.no_grad():
                v, d, c = x[1:], x.detach(), x + 1
            return v.requires_grad, v * 2, d * 2, c, v

        for k in order:
            x = leaves()[k]
            *results, v = f(x)
            found.append((results, v.requires_grad, [r.requires_grad for r in results if isinstance(r, torch.Tensor)]))
            (results[1].sum() + x.sum()).backward()
            found.append(x.grad)
    return found


@program("", "no gradients around a call with leaves that are views")
def views_of_leaves_without_gradients(compile):
    @compile
    def f(x):
        return x.t(), x.view(-1)[2:], x.detach()

    with torch.no_grad():
        return [[t.requires_grad for t in f(x)] for x in (*leaves(), *reversed(leaves()))]


def made(kind: int, a: torch.Tensor) -> torch.Tensor:
    match kind:
        case 0:
            return a.view(3, 3) * 1
        case 1:
            return a[:9].view(3, 3)
        case 2:
            return a.view(3, 3).unsqueeze(0).unbind()[0]
        case 3:
            return a.view(3, 3).split([1, 2])[1]
        case 4:
            with torch.no_grad():
                return a.view(3, 3)
        case _:
            hooked = a.view(3, 3)
            hooked.register_hook(lambda g: g * 3)
            return hooked


def without_gradients(write):
    def run(y):
        with torch.no_grad():
            write(y)

    return run


WRITES = {
    "list": without_gradients(lambda y: torch._foreach_mul_([y], 2)),
    "several": without_gradients(lambda y: torch.max(torch.ones(3, *y.shape), 0, out=(y, torch.zeros(y.shape, dtype=torch.long)))),
    "itself without gradients": without_gradients(lambda y: y.mul_(2)),
    "detached": lambda y: y.detach().mul_(2),
    "itself": lambda y: y.mul_(2),
    "part": lambda y: y[1:].mul_(2),
    "none": lambda y: y.detach().mul(2),
}


@program("", "views of several kinds are written to by a function, then read, and a pass goes through them")
def written_views(compile):
    found = []
    for (name, write), order in itertools.product(WRITES.items(), itertools.permutations(range(6), 2)):

        @compile
        def f(y, write=write):
            write(y)
            return y * 2

        for kind in order:
            a = torch.linspace(-1, 1, 9).requires_grad_()
            base = a * 1
            y = made(kind, base)
            try:
                z = f(y)
                (z.sum() + y.sum() + base.sum()).backward()
            except RuntimeError as error:
                found.append((name, kind, str(error)[:25]))
            found.append((name, kind, a.grad, y._version))
    return found
