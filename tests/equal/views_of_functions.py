"""An `autograd.Function` that gives its argument, or a view of it: its gradient is the function's, and autograd refuses writes to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Function

from repro_corpus.program import Compile, program


class Tripled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3


class Flattened(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view(-1)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.view(2, 3) * 5


class WithLoss(Function):
    """Adds to the gradient that arrives what a loss of its own would."""

    @staticmethod
    def forward(ctx: Any, x: Any, loss: Any) -> Any:
        return x, loss * 2

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return g, h * 2 + 1


def passes(compile: Compile, functions: list[Callable[[Any], Any]]) -> list[Any]:
    """Results, whose views they are, and the gradients from each; for a leaf and for what was computed from one."""
    found: list[Any] = []
    for function in functions:
        f = compile(function)
        for leaf in (torch.arange(6.0).view(2, 3).requires_grad_() for _ in range(2)):
            for x in (leaf, leaf * 1):
                results = f(x)
                results = results if isinstance(results, tuple) else (results,)
                found += [(r, r._is_view(), r._base is x) for r in results]
                found += [torch.autograd.grad(r.sum(), x, retain_graph=True) for r in results]
    return found


@program("", "an argument given back keeps the gradient of the function that gave it, alone and among views of it")
def arguments(compile: Compile) -> Any:
    return passes(
        compile,
        [
            Tripled.apply,
            lambda x: (Tripled.apply(x), x * 2),
            lambda x: Tripled.apply(x).t(),
            lambda x: Tripled.apply(x.t()),
            lambda x: Tripled.apply(Tripled.apply(x)),
            lambda x: Flattened.apply(x)[2:],
            lambda x: WithLoss.apply(x, x.sum()),
            lambda x: (Tripled.apply(x) * 2, Tripled.apply(x)),
        ],
    )


@program("", "what was computed, given back, keeps it too; results computed from that, and views of it")
def computed(compile: Compile) -> Any:
    def and_twice(x: Any) -> Any:
        y = Tripled.apply(x * 2)
        return y, y * y

    def and_view(x: Any) -> Any:
        y = Tripled.apply(x.sin())
        return y, y[0]

    def and_base(x: Any) -> Any:
        y = x * 2
        return Tripled.apply(y), y

    return passes(
        compile,
        [
            lambda x: Tripled.apply(x * 2),
            lambda x: Tripled.apply(Tripled.apply(x * 2)),
            lambda x: Flattened.apply(x.exp()),
            lambda x: Flattened.apply(x.exp())[1:4],
            lambda x: WithLoss.apply(x * 2, x.sum()),
            and_twice,
            and_view,
            and_base,
        ],
    )


@program("", "such a view that shows elements twice, or leaves some out")
def spread(compile: Compile) -> Any:
    class Repeated(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.unsqueeze(0).expand(4, 2, 3)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.sum(0) * 3

    class Halved(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:, ::2]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return torch.ones(2, 3) * g.sum()

    return passes(
        compile,
        [
            Repeated.apply,
            lambda x: Repeated.apply(x * 2),
            lambda x: Repeated.apply(x * 2)[1],
            Halved.apply,
            lambda x: Halved.apply(x * 2),
            lambda x: (Halved.apply(x * 2), Repeated.apply(x.sin()) * 2),
        ],
    )


@program("", "writes to such a view are refused, in the function and by its caller")
def written(compile: Compile) -> Any:
    def inside(x: Any) -> Any:
        y = Tripled.apply(x * 2)
        y.mul_(2)
        return y

    def of_view(x: Any) -> Any:
        y = Flattened.apply(x * 2)[1:]
        y += 1
        return y

    found: list[Any] = []
    for function in (inside, of_view, Tripled.apply, lambda x: Tripled.apply(x * 2), lambda x: Flattened.apply(x.exp())[1:]):
        f = compile(function)
        for _ in range(2):
            try:
                found.append(f(torch.arange(6.0).view(2, 3).requires_grad_()))
                found[-1].add_(1)
            except RuntimeError as e:
                found.append(type(e))
    return found


@program("", "hooks and gradients of such a result, from what was computed of it in the same graph")
def watched(compile: Compile) -> Any:
    @compile
    def f(x: Any) -> Any:
        y = Tripled.apply(x * 2)
        return y, y.sin()

    seen: list[Any] = []
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    y, z = f(x)
    y.register_hook(lambda g: seen.append(g.clone()))
    y.retain_grad()
    z.sum().backward(retain_graph=True)
    return seen, y.grad, x, torch.autograd.grad(z.sum(), y)
