"""`torch.func.vjp` and `linearize` inside a compiled function: the functions they return, called once, often, elsewhere, later or never."""

from __future__ import annotations

import torch
from torch.func import grad, jvp, linearize, vjp, vmap

from repro_corpus.program import program


def _leaf(*shape):
    return torch.rand(*shape).requires_grad_()


@program("", "a pull-back called twice, with gradients through value, arguments and cotangent")
def pulled(compile):
    w = _leaf(3)

    @compile(fullgraph=True)
    def f(x, y, t):
        out, pull = vjp(lambda a, b: (a * w).sin() * b.exp(), x, y)
        return out, pull(t), pull(cotangents=t * 2)[0]

    x, y, t = _leaf(3), _leaf(3), _leaf(3)
    out, first, second = f(x, y, t)
    (out.sum() + first[0].square().sum() + (first[1] * second).sum()).backward()
    return out, first, second, x.grad, y.grad, t.grad, w.grad, [g.requires_grad for g in first]


@program("", "pull-backs of structures, with more results, of what gives its argument or the same tensor twice")
def pulled_structures(compile):
    @compile(fullgraph=True)
    def f(x, y):
        out, pull, aux = vjp(lambda d: ({"a": d["p"] * d["q"][0], "b": [d["p"].sum()]}, d["p"].cos()), {"p": x, "q": [y]}, has_aux=True)
        same, back = vjp(lambda a: a, x)
        twice, two = vjp(lambda a: (a.sin(),) * 2, y)
        return out, pull({"a": y, "b": [x.sum()]}), aux, same, back(y), twice, two((x, y)), same is x

    x, y = torch.rand(3), torch.rand(3)
    out = f(x, y)
    return out, out[3] is x, out[4][0] is y, out[5][0] is out[5][1], f(_leaf(3), _leaf(3))


@program("", "a Jacobian by vmap of a pull-back, pull-backs in vmap, in grad, of grad, and in one another")
def pulled_nested(compile):
    @compile(fullgraph=True)
    def f(x, t):
        _, pull = vjp(lambda a: a.sin() * a.sum(), x)
        (rows,) = vmap(pull)(torch.eye(3))
        each = vmap(lambda a, b: vjp(torch.exp, a)[1](b)[0])(torch.stack([x, t]), torch.stack([t, x]))
        g = grad(lambda a: vjp(lambda b: b.sin() * x, a)[1](t)[0].sum())(x)
        h = vjp(grad(lambda a: (a**3).sum()), x)[1](t)
        i = vjp(lambda a: vjp(torch.sin, a)[1](t)[0], x)[1](t)
        return rows, each, g, h, i, jvp(lambda a: vjp(torch.sin, a)[1](t)[0], (x,), (t,))

    x, t = _leaf(3), torch.rand(3)
    out = f(x, t)
    out[0].sum().backward()
    return out, x.grad


@program("", "grad modes: where the function ran, and where its pull-back is called")
def pulled_modes(compile):
    @compile(fullgraph=True)
    def f(x, t):
        with torch.no_grad():
            a, pull = vjp(lambda a: a.sin().sin(), x)
        b, back = vjp(lambda a: a.sin().sin(), x)
        with torch.no_grad():
            c = back(t)
        return a, pull(t), b, c, back(t, create_graph=False), back(t, create_graph=True), torch.is_grad_enabled()

    def seen(x, t):
        out = f(x, t)
        tensors = torch.utils._pytree.tree_leaves(out[:-1])
        given = [leaf for leaf in (x, t) if leaf.requires_grad]
        gradients = [torch.autograd.grad(o.sum(), given, allow_unused=True, retain_graph=True) for o in tensors if o.requires_grad]
        return out, [o.requires_grad for o in tensors], gradients

    with torch.no_grad():
        quiet = f(torch.rand(3), torch.rand(3))
    return seen(_leaf(3), _leaf(3)), seen(_leaf(3), torch.rand(3)), quiet


@program("", "linear approximations called twice, of structures, mapped: gradients for tangents alone")
def pushed(compile):
    w = _leaf(3)

    @compile(fullgraph=True)
    def f(x, y, t):
        out, push = linearize(lambda a, b: {"s": (a * w).sin() * b, "t": (b.exp().sum(), a)}, x, y)
        same, on = linearize(lambda a: a * 2, x)
        return out, push(t, t * 2), same, on(t), vmap(on)(torch.eye(3))

    x, y, t = _leaf(3), _leaf(3), _leaf(3)
    out = f(x, y, t)
    leaves = [o for o in torch.utils._pytree.tree_leaves(out[1]) if o.requires_grad]
    return out, torch.autograd.grad([o.sum() for o in leaves], (x, y, t, w), allow_unused=True)


@program("", "functions that outlive the call, are dropped, or are kept in lists")
def escaping(compile):
    @compile
    def f(x, t):
        out, pull = vjp(lambda a: a.sin(), x)
        _, push = linearize(lambda a: a.cos(), x)
        kept = [pull, push]
        vjp(lambda a: a.exp(), x)
        return out, kept[0](t), kept[1](t), kept

    x, t = torch.rand(3), torch.rand(3)
    out = f(x, t)
    return out[:-1], [g(t * 2) for g in out[-1]], f(x, t)[-1][0](x)


@program("", "what was read is written before the pull-back is called")
def written_between(compile):
    w = torch.ones(3)

    @compile
    def f(x, t):
        x = x.clone()
        out, pull = vjp(lambda a: (a.exp() * w).sin(), x)
        x.add_(1)
        a = pull(t)
        out, pull = vjp(lambda a: a.exp(), x)
        out.mul_(2)
        b = pull(t)
        _, push = linearize(lambda a: a.sin() * w, x)
        w.mul_(2)
        return a, b, push(t)

    return f(torch.rand(3), torch.rand(3)), w


@program("", "what is refused: cotangents of another structure or shape, integers, no tensors, no pair")
def refused(compile):
    def tried(f, *args):
        try:
            return f(*args)
        except Exception as e:  # noqa: BLE001  # any: that is what is compared
            return type(e).__name__, str(e).split("\n")[0]

    x, t = torch.rand(3), torch.rand(3)
    bad = (
        lambda x, t: vjp(torch.sin, x)[1]((t,)),
        lambda x, t: vjp(torch.sin, x)[1](t[:2]),
        lambda x, t: vjp(torch.sin, x)[1](t.double()),
        lambda x, t: vjp(lambda a: a.long(), x)[1](t),
        lambda x, t: vjp(lambda a: 3, x),
        lambda x, t: vjp(torch.sin, x, has_aux=True),
        lambda x, t: vjp(torch.sin, x.long()),
        lambda x, t: vjp(torch.sin, 3.0),
        lambda x, t: vjp(torch.sin, x)[1](t, t, t, t),
        lambda x, t: linearize(torch.sin, x)[1](t, t),
        lambda x, t: linearize(torch.sin, x)[1](t[:2]),
        lambda x, t: linearize(torch.sin, x)[1](t.double()),
        lambda x, t: vmap(lambda a: linearize(torch.sin, a)[1](t))(torch.stack([x, t])),
        lambda x, t: jvp(lambda a: linearize(torch.sin, a)[1](t), (x,), (t,)),
        lambda x, t: vjp(lambda a: linearize(torch.sin, a)[0], x)[1](t),
        lambda x, t: (vjp(lambda a: a.detach(), x)[1](t), vjp(lambda a: t, x)[1](t)),
    )
    return [tried(compile(f), x, t) for f in bad]
