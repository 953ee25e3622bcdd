"""Transforms of torch.func inside one graph, with gradients through them."""

from __future__ import annotations

import collections
import types

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

from repro_corpus.program import program


def _energy(x):
    return (x.sin() * x).sum()


def _with_gradients(f, *args):
    given = [a.clone().requires_grad_() for a in args]
    out = f(*given)
    leaves = [t for t in torch.utils._pytree.tree_leaves(out) if t.requires_grad]
    sum(t.square().sum() for t in leaves).backward()
    return out, [a.grad for a in given]


@program("", "vmap over one and several dimensions, with a weight from outside")
def mapped(compile):
    w = torch.rand(3)

    @compile(fullgraph=True)
    def f(x, y):
        one = vmap(lambda a: (a * w).sum())(x)
        two = vmap(lambda a, b: {"p": a * b, "q": (a.sin(), b + 1)}, in_dims=(1, None), out_dims={"p": 1, "q": (0, 0)})(x, y)
        return one, two, vmap(lambda a: vmap(lambda b: b * a.sum())(a))(x), vmap(torch.dot, (0, None), chunk_size=2)(x, w)

    return _with_gradients(f, torch.rand(4, 3), torch.rand(4))


@program("", "gradients for each example, by names of parameters, of a module called with them")
def per_example(compile):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    for p in model.parameters():
        nn.init.constant_(p, 0.25)
    parameters = {k: v.detach() for k, v in model.named_parameters()}

    @compile(fullgraph=True)
    def f(parameters, x, y):
        loss = lambda p, a, b: (functional_call(model, p, (a,)) - b).square().mean()  # noqa: E731
        return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y), model(x)

    out = [f(parameters, torch.rand(5, 3), torch.rand(5, 1)) for _ in range(2)]
    return out, [p.requires_grad for p in model.parameters()], list(model.state_dict())


@program("", "an ensemble of modules with stacked parameters")
def ensemble(compile):
    models = [nn.Linear(3, 2) for _ in range(3)]
    for k, m in enumerate(models):
        nn.init.constant_(m.weight, 0.5 + k)
        nn.init.zeros_(m.bias)
    parameters, buffers = stack_module_state(models)
    base = nn.Linear(3, 2)
    f = compile(lambda x: vmap(lambda p, b: functional_call(base, (p, b), (x,)))(parameters, buffers), fullgraph=True)
    out = f(torch.rand(4, 3))
    out.sum().backward()
    return out, {k: p.grad for k, p in parameters.items()}


@program("", "gradients of gradients, with values and more results")
def gradients(compile):
    @compile(fullgraph=True)
    def f(x, w):
        second = grad(lambda y: grad(_energy)(y).sum())(x)
        both = grad_and_value(lambda a, b: ((a * b).sum() ** 2, {"s": a.sin()}), argnums=(0, 1), has_aux=True)(x, w)
        return second, both, grad(lambda p, *, k: (p["a"] * p["b"][0] * k).sum())({"a": x, "b": [w]}, k=w), grad(_energy)(x * 2)

    return _with_gradients(f, torch.rand(3), torch.rand(3))


@program("", "grad modes inside and around a gradient")
def grad_modes(compile):
    @compile(fullgraph=True)
    def f(x):
        def partly(y):
            with torch.no_grad():
                z = y * 2
            return (y * y * z).sum()

        with torch.no_grad():
            apart = grad(_energy)(x)
        return grad(partly)(x), apart, torch.tensor(torch.is_grad_enabled())

    out = _with_gradients(f, torch.rand(3))
    return out, torch.is_grad_enabled()


@program("", "Jacobians and Hessians, by several arguments and with more results")
def jacobians(compile):
    @compile(fullgraph=True)
    def f(x, w):
        rows = jacrev(lambda a, b: (a * b, {"s": a.sum()}), argnums=(0, 1))(x, w)
        columns = jacfwd(lambda a, b: (a * b.sin(), b), argnums=1, has_aux=True)(x, w)
        return rows, columns, hessian(_energy)(x), hessian(lambda a, b: (a * b).sin().sum(), argnums=(0, 1))(x, w)

    return _with_gradients(f, torch.rand(3), torch.rand(3))


@program("", "tangents of one and several arguments")
def tangents(compile):
    @compile(fullgraph=True)
    def f(x, w):
        return (
            jvp(_energy, (x,), (w,)),
            jvp(lambda a, b: (a * b, b.sin()), (x, w), (w, x)),
            jvp(lambda a: (a.sin(), a), (x,), (w,), has_aux=True),
        )

    return _with_gradients(f, torch.rand(3), torch.rand(3))


@program("", "transforms that were made outside of the compiled function")
def made_outside(compile):
    mapped, learned, rows = vmap(_energy), grad(_energy), jacrev(torch.sin)
    f = compile(lambda x: (mapped(x), learned(x), rows(x[0])), fullgraph=True)
    return _with_gradients(f, torch.rand(2, 3)), _with_gradients(compile(mapped, fullgraph=True), torch.rand(2, 3))


@program("", "a function that notes down what it sees is run by eager")
def noted_down(compile):
    seen = []

    @compile
    def f(x):
        def note(a):
            seen.append(tuple(a.shape))
            return a * 2

        return vmap(note)(x) + 1

    return f(torch.rand(2, 3)), f(torch.rand(2, 3)), seen


@program("", "what a function keeps in a list of the caller's own frame")
def kept_in_lists(compile):
    @compile
    def f(x):
        shapes, count = [], 0

        def note(a):
            nonlocal count
            shapes.append(a.shape[0])
            count += 1
            return a * 2

        return vmap(note)(x) + 1, shapes, count, grad(lambda y: (shapes.append(7), y.sum())[1])(x[0]), shapes

    return f(torch.rand(2, 3))


@program("", "writes inside: to what is made there, to what is given, to what is read")
def writes_inside(compile):
    f = compile(lambda x: vmap(lambda a: (a * 1).add_(a).mul_(2))(x), fullgraph=True)

    @compile
    def g(x):
        given, read = x.clone(), torch.ones(3)
        first = vmap(lambda a: a.add_(1) * 2)(given)
        return first, given, vmap(lambda a: a * read.mul_(2))(x), read

    x = torch.rand(4, 3)
    return _with_gradients(f, x), g(x)


@program("", "views, results that are no function of the examples, and autocast around")
def forms_of_results(compile):
    @compile(fullgraph=True)
    def f(x, w):
        parts = vmap(lambda a: (a[0], a[1:], w))(x)
        with torch.autocast("cpu", torch.bfloat16):
            cast = vmap(lambda a: a @ w)(x)
            learned = grad(lambda a: (a @ w).float().square().sum())(x)
        return parts, cast, learned

    return _with_gradients(f, torch.rand(4, 3), torch.rand(3))


@program("", "effects behind an inner transform, and on objects of many kinds")
def effects_of_many_kinds(compile):
    out = []
    for change in (
        lambda s: s["list"].append(1),
        lambda s: s["set"].add(1),
        lambda s: s["deque"].append(1),
        lambda s: s["bytes"].append(1),
        lambda s: next(s["iterator"]),
        lambda s: s["dict"].pop("a", None),
        lambda s: setattr(s["object"], "n", s["object"].n + 1),
    ):
        made = {"list": [], "set": set(), "deque": collections.deque(), "bytes": bytearray(), "iterator": iter(range(9)), "dict": {"a": 1}}
        state = {**made, "object": types.SimpleNamespace(n=0)}

        def f(x, change=change, state=state):
            def row(a):
                learned = grad(_energy)(a)
                change(state)
                return learned * 2

            return vmap(row)(x) + 1

        c = compile(f)
        x = torch.rand(2, 3)
        seen = [c(x), c(x)]
        out.append(
            (
                seen,
                state["list"],
                state["set"],
                list(state["deque"]),
                bytes(state["bytes"]),
                list(state["iterator"]),
                state["dict"],
                state["object"].n,
            )
        )
    return out


@program("", "numbers beside examples without dimensions are in the graph: batch rules cast such a number as if it were a tensor")
def numbers_beside_scalars(compile):
    bodies = [
        lambda s: s * 2.5 + s / 3 - 1,
        lambda s: s.bfloat16() * 0.1 + s.long() * 2 + (s > 0) * 1.5,
        lambda s: torch.where(s > 0, s, 0.5) ** 2 + torch.add(1, s, alpha=2),
        lambda s: torch.func.jvp(lambda t: t.mul(2.0) * t, (s,), (s,))[1],
        lambda s: torch.func.grad(lambda t: t.mul(2.0) * t + 1)(s),
    ]
    x = torch.tensor([0.5, -1.0, 2.0, 3.0])
    found = [compile(lambda x, body=body: torch.vmap(body)(x), fullgraph=True)(x) for body in bodies]
    return found, [compile(lambda x, body=body: torch.vmap(torch.vmap(body))(x), fullgraph=True)(x.view(2, 2)) for body in bodies]
