"""Transforms of torch.func and forward-mode differentiation, inside compiled functions and around them."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as fwad
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

from repro_corpus.program import program


def _f(x):
    return (x.sin() * x).sum()


@program("", "grad of a compiled function")
def grad_around(compile):
    f = compile(_f)
    x = torch.rand(3)
    return f(x), grad(f)(x), f(x)


@program("", "grad inside a compiled function")
def grad_inside(compile):
    @compile
    def f(x):
        return grad(_f)(x * 2) + 1

    return f(torch.rand(3))


@program("", "grad of grad, inside and around")
def grad_of_grad(compile):
    inner = compile(lambda x: (x**3).sum())

    @compile
    def f(x):
        return grad(lambda y: grad(lambda z: (z**3).sum())(y).sum())(x)

    x = torch.rand(3)
    return f(x), grad(lambda y: grad(inner)(y).sum())(x)


@program("", "vmap of a compiled function")
def vmap_around(compile):
    f = compile(lambda x, w: x @ w + 1)
    x, w = torch.rand(4, 3), torch.rand(3, 2)
    return vmap(f, in_dims=(0, None))(x, w), f(x[0], w)


@program("", "vmap inside a compiled function")
def vmap_inside(compile):
    @compile
    def f(x, w):
        return vmap(lambda a: (a * w).sum())(x) * 2

    return f(torch.rand(4, 3), torch.rand(3))


@program("", "per-sample gradients")
def per_sample_gradients(compile):
    m = nn.Linear(3, 1)
    p = {k: v.detach() for k, v in m.named_parameters()}

    def loss(p, x, y):
        return (functional_call(m, p, (x[None],)) - y).pow(2).sum()

    @compile
    def f(p, x, y):
        return vmap(grad(loss), in_dims=(None, 0, 0))(p, x, y)

    return f(p, torch.rand(4, 3), torch.rand(4, 1)), vmap(grad(compile(loss)), in_dims=(None, 0, 0))(p, torch.rand(4, 3), torch.rand(4, 1))


@program("", "jvp and vjp inside and around")
def jvp_vjp(compile):
    c = compile(lambda x: x.sin() * x)

    @compile
    def f(x, t):
        a, b = jvp(lambda y: y.cos() * 2, (x,), (t,))
        o, back = vjp(lambda y: y.exp(), x)
        return a, b, o, back(t)[0]

    x, t = torch.rand(3), torch.rand(3)
    o, back = vjp(c, x)
    return f(x, t), jvp(c, (x,), (t,)), o, back(t)


@program("", "jacobians and hessians of compiled functions")
def jacobians_around(compile):
    v = compile(lambda x: x.sin() * x.sum())
    s = compile(_f)
    x = torch.rand(3)
    return jacrev(v)(x), jacfwd(v)(x), hessian(s)(x), s(x)


@program("", "jacobians and hessians inside compiled functions")
def jacobians_inside(compile):
    @compile
    def f(x):
        return jacrev(lambda y: y.sin() * y.sum())(x), jacfwd(lambda y: y * y)(x), hessian(_f)(x)

    return f(torch.rand(3))


@program("", "grad_and_value with aux")
def grad_and_value_inside(compile):
    @compile
    def f(x):
        g, (v, aux) = grad_and_value(lambda y: (_f(y), y * 2), has_aux=True)(x)
        return g, v, aux

    return f(torch.rand(3))


@program("", "functional_call inside, with gradients to the given parameters")
def functional_call_inside(compile):
    m = nn.Sequential(nn.Linear(3, 2), nn.Tanh())

    @compile
    def f(p, x):
        return functional_call(m, p, (x,)).sum()

    p = {k: (v.detach() * 2).requires_grad_() for k, v in m.named_parameters()}
    f(p, torch.rand(2, 3)).backward()
    return p, list(m.parameters())


@program("", "functional_call of a compiled module")
def functional_call_around(compile):
    m = nn.Linear(3, 2)
    c = compile(m)
    x = torch.rand(2, 3)
    name = next(n for n, _ in c.named_parameters()).rpartition("weight")[0]
    p = {name + "weight": torch.ones(2, 3), name + "bias": torch.zeros(2)}
    return c(x), functional_call(c, p, (x,)), c(x)


@program("", "a model ensemble with stack_module_state")
def ensemble(compile):
    models = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = stack_module_state(models)

    @compile
    def f(p, b, x):
        return vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(p, b, x)

    return f(params, buffers, torch.rand(2, 3))


@program("", "randomness in vmap raises as in eager")
def vmap_randomness(compile):
    f = compile(lambda x: x + torch.rand(2))
    with_error = []
    try:
        vmap(f)(torch.zeros(3, 2))
    except RuntimeError as e:
        with_error.append(type(e))
    return with_error, vmap(f, randomness="same")(torch.zeros(3, 2)), vmap(f, randomness="different")(torch.zeros(3, 2))


@program("", "dual tensors through a compiled function")
def dual_around(compile):
    f = compile(lambda x: x.sin() * 2)
    x, t = torch.rand(3), torch.rand(3)
    plain = f(x)
    with fwad.dual_level():
        y = f(fwad.make_dual(x, t))
        primal, tangent = fwad.unpack_dual(y)
        out = (primal.clone(), tangent.clone())
    return plain, out, f(x)


@program("", "dual tensors made inside a compiled function")
def dual_inside(compile):
    @compile
    def f(x, t):
        a = x + 1
        with fwad.dual_level():
            y = fwad.make_dual(a, t).exp()
            p, d = fwad.unpack_dual(y)
            d = d * 1
        return d + a, p * 1

    return f(torch.rand(3), torch.rand(3))


@program("", "dual parameters of a compiled module")
def dual_module(compile):
    m = nn.Linear(3, 2)
    c = compile(m)
    x = torch.rand(2, 3)
    plain = c(x)
    p = m.weight.detach()
    del m.weight
    with fwad.dual_level():
        m.weight = fwad.make_dual(p, torch.ones_like(p))
        tangent = fwad.unpack_dual(c(x)).tangent.clone()
    return plain, tangent


@program("", "forward over reverse")
def forward_over_reverse(compile):
    f = compile(lambda x: (x**3).sum())
    x = torch.rand(3)
    f(x)
    return jvp(grad(f), (x,), (torch.ones(3),)), vmap(grad(f))(torch.rand(2, 3))


@program("", "autograd.functional around a compiled function")
def autograd_functional(compile):
    f = compile(lambda x: (x**3).sum())
    x = torch.rand(3)
    a = torch.autograd.functional
    return a.jacobian(f, x), a.hessian(f, x), a.vhp(f, x, torch.ones(3)), a.hvp(f, x, torch.ones(3)), a.jvp(f, x, torch.ones(3))


@program("", "autograd.functional inside a compiled function")
def autograd_functional_inside(compile):
    @compile
    def f(x):
        return torch.autograd.functional.jacobian(lambda y: y * y.sum(), x) * 2

    return f(torch.rand(3))


@program("", "batched gradients of a compiled function's result")
def batched_gradients(compile):
    f = compile(lambda x: x.sin() * x)
    x = torch.rand(3, requires_grad=True)
    y = f(x)
    return torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)


@program("", "vectorized jacobian of a compiled function")
def vectorized_jacobian(compile):
    f = compile(lambda x: x.sin() * x)
    return torch.autograd.functional.jacobian(f, torch.rand(3), vectorize=True)


@program("", "torch.func.linearize and vmap with chunks")
def vmap_chunks(compile):
    f = compile(lambda x: (x * x).sum())
    return vmap(f, chunk_size=2)(torch.rand(5, 3)), vmap(vmap(f))(torch.rand(2, 2, 3))


@program("", "a compiled function that breaks, under vmap")
def vmap_of_broken(compile):
    @compile
    def f(x):
        y = x * 2
        print("seen")
        return y + 1

    return vmap(f)(torch.rand(2, 3)), f(torch.rand(3))


@program("", "gradients flow from autograd through a transform inside")
def autograd_through_transform(compile):
    @compile
    def f(x, w):
        return vmap(lambda a: (a * w).sum())(x).sum() + jvp(lambda y: y * w, (x,), (torch.ones_like(x),))[1].sum()

    x, w = torch.rand(2, 3, requires_grad=True), torch.rand(3, requires_grad=True)
    f(x, w).backward()
    return x, w


@program("", "a closure over a tensor of the outer transform")
def closed_over_wrapper(compile):
    def outer(x):
        inner = compile(lambda y: (x * y).sum())
        return grad(inner)(x * 2).sum()

    return grad(outer)(torch.rand(3))


@program("", "functionalize and make_fx around a compiled function")
def make_fx_around(compile):
    from torch.fx.experimental.proxy_tensor import make_fx

    f = compile(lambda x: x.sin() + 1)
    gm = make_fx(f)(torch.rand(3))
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"], torch.func.functionalize(f)(torch.rand(3))


@program("", "torch.jit.trace of a compiled function")
def jit_trace_around(compile):
    f = compile(lambda x: x.sin() + 1)
    return torch.jit.trace(f, (torch.rand(3),))(torch.ones(3))
