"""Gradients that don't arrive: results that nothing uses, and branches of a program through which nothing flows back."""

from __future__ import annotations

import contextlib

import torch

from repro_corpus.program import program


def leaves() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)


@program("", "a result that nothing uses gives its leaf no gradient at all")
def unused_result(compile):
    @compile
    def f(x, y):
        return x * 2, y.sin()

    x, y = leaves()
    f(x, y)[0].sum().backward()
    return x, y


@program("", "each of three results alone, and two of them")
def some_of_several(compile):
    @compile
    def f(x, y):
        return x * 2, y.sin(), x * y

    found = []
    for chosen in ((0,), (1,), (2,), (0, 1), (0, 2)):
        x, y = leaves()
        results = f(x, y)
        sum(results[i].sum() for i in chosen).backward()
        found.append((x.grad, y.grad))
    return found


@program("", "nothing flows back into a graph behind a break")
def nothing_flows_back(compile):
    class Stops(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return None

    @compile
    def f(x, y):
        z = x * 3
        print("here")
        return z, y.exp()

    x, y = leaves()
    z, w = f(x, y)
    (Stops.apply(z).sum() + w.sum()).backward()
    return x, y


@program("", "autograd.grad with allow_unused finds None, without it the error of eager")
def unused_inputs(compile):
    @compile
    def f(x, y):
        return x * 2, y.sin()

    x, y = leaves()
    found = [torch.autograd.grad(f(x, y)[1].sum(), (x, y), allow_unused=True)]
    try:
        found.append(torch.autograd.grad(f(x, y)[0].sum(), (x, y)))
    except RuntimeError as e:
        found.append(str(e)[:60])
    return found


@program("", "an optimizer leaves parameters alone that got no gradient")
def decay_of_unused_parameters(compile):
    torch.manual_seed(0)
    used, unused = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    @compile
    def f(x):
        return used(x), unused(x)

    parameters = [*used.parameters(), *unused.parameters()]
    opt = torch.optim.AdamW(parameters, lr=0.1, weight_decay=0.5)
    for _ in range(2):
        f(torch.ones(2, 3))[0].sum().backward()
        opt.step()
        opt.zero_grad()
    return [p.detach() for p in parameters]


@program("", "the same for the second derivative, and for results in place of each other's gradient")
def unused_result_twice(compile):
    @compile
    def f(x, y):
        return x**3, y**3

    x, y = leaves()
    (g,) = torch.autograd.grad(f(x, y)[0].sum(), x, create_graph=True)
    g.sum().backward()
    return g, x, y


@program("", "hooks of a leaf that no gradient reaches are not called, and it has no gradient")
def hooks_of_unused_leaves(compile):
    @compile
    def f(x, y):
        return x * 2, y.sin()

    x, y = leaves()
    seen = []
    x.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * 2)
    f(x, y)[0].sum().backward()
    return seen, x, y


@program("", "zeros without memory as arguments, also where another call had ordinary ones, and as the gradient of a result")
def zeros_without_memory(compile):
    f = compile(lambda x, y: x * y + x)
    bodies = [lambda x: x * 2, lambda x: x.sin() * x, lambda x: x.cumsum(0), lambda x: x.sgn() * x, lambda x: (x.sin(), x.exp())[1]]
    zero, infinite = torch._efficientzerotensor(3), torch.tensor([1.0, float("inf"), -2.0])
    found = [f(*args) for args in ((infinite, infinite), (zero, infinite), (infinite, zero), (zero, zero))]
    found += [t._is_zerotensor() for t in found]
    for body in bodies:
        x = torch.ones(3, requires_grad=True)
        result = compile(body)(x)
        result.backward(torch._efficientzerotensor(3))
        found.append(x.grad._is_zerotensor())
        for again in (result, compile(body)(x)):
            try:
                again.backward(torch.ones(3))
            except RuntimeError as e:
                found.append(str(e)[:30])
    return [t.clone() if isinstance(t, torch.Tensor) else t for t in found]


@program("", "an optimizer, a clipped norm and a plain step with a gradient that is zeros without memory")
def steps_with_zeros_without_memory(compile):
    p = torch.nn.Parameter(torch.arange(3.0))
    p.grad = torch._efficientzerotensor(3)
    found = []
    for step in (torch.optim.SGD([p], momentum=0.9).step, torch.optim.Adam([p]).step, lambda: p.detach().add_(p.grad, alpha=2)):
        compile(step)()
        found.append(p.detach().clone())
    for refused in (lambda: torch.nn.utils.clip_grad_norm_([p], 1.0), lambda: p.grad.add_(1)):
        try:
            compile(refused)()
        except RuntimeError as e:
            found.append(str(e)[:30])
    return found


@program("", "a gradient that is zero whatever arrives: it is there where a result leads to the leaf, and only there")
def gradients_that_are_always_zero(compile):
    bodies = [
        lambda x, y: (x.sgn(), x * 2, y * 3),
        lambda x, y: (x.sgn() * y, x * 2, y.exp()),
        lambda x, y: (x.sign(), x.round() + y, y.floor()),
        lambda x, y: (x.sgn(), y.exp(), (x + y).sgn()),
    ]
    found = []
    for body in bodies:
        for chosen in ((0,), (1,), (2,), (0, 1), (0, 2)):
            x, y = leaves()
            results = compile(body)(x, y)
            torch.autograd.backward([results[i].sum() for i in chosen])
            found += [None if t.grad is None else t.grad.clone() for t in (x, y)]
    return found


@program("", "gradients that are zeros without memory, as forward derivatives leave them: such a .grad refuses what a later pass would add")
def zeros_that_are_left(compile):
    calls = [
        lambda x, w: (torch.func.jvp(lambda s: s * w, (x,), (w,))[1], x + 1),
        lambda x, w: (torch.func.jacfwd(lambda s, t: s * t * t)(x, w)[0, 1], x + 1),
        lambda x, w: (torch.func.jacfwd(lambda s, t: s * t, argnums=1)(x, w).sum(0), x * w),
        lambda x, w: (torch.func.jvp(lambda s: s * w, (x,), (w,))[1] + x, x + 1),
        lambda x, w: (torch.func.jvp(lambda s: s.sin() * w, (x,), (w,))[1], x + 1),
        lambda x, w: (torch.func.jvp(lambda s: s * w, (x,), (w,))[1],),
    ]
    found = []
    for call in calls:
        for order in ((0, 1), (1, 0), (0, 0)):
            for mode in (contextlib.nullcontext(), torch.autocast("cpu", torch.bfloat16)):
                x, w = torch.ones(3, 3, requires_grad=True), torch.full((3, 3), 2.0, requires_grad=True)
                with mode:
                    results = compile(call)(x, w)
                for i in order:
                    try:
                        results[i % len(results)].float().sum().backward(retain_graph=True)
                        found.append([(t.grad._is_zerotensor(), t.grad.clone()) for t in (x, w) if t.grad is not None])
                    except RuntimeError as e:
                        found.append(str(e)[:30])
    return found
