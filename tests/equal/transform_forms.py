"""More of torch.func, forward-mode differentiation and autograd.functional inside and around compiled functions."""

from __future__ import annotations

import torch
import torch.autograd.forward_ad as fwad
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

from repro_corpus.program import program


def _raised(fn, *args):
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the program compares what is raised
        return type(e), str(e).splitlines()[0] if str(e) else ""


def _f(x):
    return (x.sin() * x).sum()


@program("", "vmap over grad over vmap, with closures over tensors of each level")
def nested(compile):
    w = torch.rand(3)
    inner = compile(lambda x, y: ((x * w).sin() * y).sum())

    @compile
    def f(xs, ys):
        def row(x):
            return vmap(lambda y: grad(inner)(x, y) * x)(ys)

        return vmap(row)(xs) + 1, vmap(lambda x: grad(lambda z: inner(z, x).sum())(x * 2))(xs)

    xs, ys = torch.rand(2, 3), torch.rand(4, 3)
    return f(xs, ys), vmap(lambda x: vmap(lambda y: inner(x, y))(ys))(xs), vmap(vmap(grad(inner), (None, 0)), (0, None))(xs, ys)


@program("", "randomness modes inside and around, and the state of the generator afterwards")
def randomness(compile):
    noise = compile(lambda x: x + torch.rand(2) + torch.nn.functional.dropout(x, 0.5))

    @compile
    def f(x):
        same = vmap(lambda a: a * torch.rand(2), randomness="same")(x)
        different = vmap(lambda a: a * torch.rand(2), randomness="different")(x)
        return same, different, torch.rand(1)

    x = torch.ones(3, 2)
    out = [f(x), _raised(vmap(noise), x), vmap(noise, randomness="different")(x), vmap(noise, randomness="same")(x), noise(x[0])]
    return out, _raised(compile(lambda x: vmap(lambda a: torch.randn(2) * a)(x)), x), torch.rand(2)


@program("", "in_dims and out_dims: negative, nested structures, None, dicts, several results")
def dims(compile):
    c = compile(lambda d, k: {"s": d["a"] + d["b"][0], "t": (d["a"] * k, d["b"][1].sum())})

    @compile
    def f(d, k):
        return vmap(c, in_dims=({"a": 0, "b": (1, None)}, None), out_dims={"s": 1, "t": (0, 0)})(d, k)

    d = {"a": torch.rand(3, 2), "b": (torch.rand(2, 3), torch.rand(4))}
    g = vmap(compile(lambda x, y: (x + y, x.mean(), y)), in_dims=(-1, None), out_dims=(-1, 0, None))
    return f(d, 2.0), _raised(g, torch.rand(2, 3), torch.rand(2)), _raised(vmap(compile(lambda x: x)), 3), _raised(f, d, torch.rand(1))


@program("", "has_aux, argnums, several arguments and structures")
def grad_options(compile):
    c = compile(lambda p, x: ((p["w"] * x).sum() ** 2, {"x": x * 2, "n": x.new_tensor(3)}))

    @compile
    def f(p, x):
        g, aux = grad(c, has_aux=True)(p, x)
        h, (v, more) = grad_and_value(c, argnums=(0, 1), has_aux=True)(p, x)
        j, jaux = jacrev(lambda x: (x * x, x.sum()), has_aux=True)(x)
        k, kaux = jacfwd(lambda x, y: (x * y, y), argnums=1, has_aux=True)(x, x)
        return g, aux, h, v, more, j, jaux, k, kaux, jvp(lambda x: (x.sin(), x), (x,), (x,), has_aux=True), grad(_f, argnums=0)(x)

    p, x = {"w": torch.rand(3)}, torch.rand(3)
    refused = _raised(grad(compile(lambda x: x * 2)), x), _raised(grad(compile(_f), argnums=2), x)
    return f(p, x), grad(c, argnums=1, has_aux=True)(p, x), refused


@program("", "chunk_size of vmap and jacrev, and vmap over an empty dimension")
def chunks(compile):
    c = compile(lambda x: x.sin() * x.sum())

    @compile
    def f(x):
        return vmap(c, chunk_size=2)(x), jacrev(c, chunk_size=1)(x[0]), jacfwd(lambda x: x * x, randomness="same")(x[1])

    empty = _raised(vmap(c), torch.rand(0, 3))
    return f(torch.rand(5, 3)), vmap(c, chunk_size=3)(torch.rand(4, 3)), jacrev(c, chunk_size=2)(torch.rand(3)), empty


@program("", "transforms in a module's forward, with buffers that change, and parameters that get gradients")
def in_module(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)
            self.register_buffer("seen", torch.zeros(()))
            for p in self.lin.parameters():
                nn.init.constant_(p, 0.25)

        def energy(self, x):
            return self.lin(x).tanh().sum()

        def forward(self, x):
            self.seen += 1
            force = -grad(self.energy)(x)
            rows = vmap(self.energy)(x)
            return force * self.seen.clone(), rows

    m = M()
    c = compile(m)
    out = [c(torch.rand(2, 3)) for _ in range(3)]
    (out[0][0].sum() + out[1][1].sum()).backward()
    return out, m.seen, [p.grad for p in m.parameters()]


@program("", "batch norm's buffers through functional_call, with strict and tied weights")
def functional(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    params, buffers = dict(m.named_parameters()), dict(m.named_buffers())

    @compile
    def f(params, buffers, x):
        loss = lambda p, buffers: functional_call(m, (p, buffers), (x,)).pow(2).sum()  # noqa: E731
        return grad(loss)(params, buffers), functional_call(m, {"0.weight": torch.eye(3)}, (x,)), m(x)

    c = compile(lambda p, x: functional_call(m, p, (x,), strict=True))
    x = torch.rand(4, 3)
    out = f({k: v.detach() for k, v in params.items()}, {k: v.clone() for k, v in buffers.items()}, x)
    return out, dict(m.named_buffers()), _raised(c, {"0.weight": torch.eye(3)}, x), _raised(c, {"nope": torch.eye(3)}, x)


@program("", "transforms under no_grad, inference mode and autocast, and such blocks inside transforms")
def under_modes(compile):
    c = compile(lambda x: (x @ x).sum())

    @compile
    def f(x):
        with torch.no_grad():
            a = grad(c)(x)
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            b, d = grad(c)(x), vmap(lambda r: r @ x)(x)
        e = grad(lambda z: (z * z.detach() + _quiet(z)).sum())(x)
        return a, y.requires_grad, b, d.dtype, d.float(), e

    x = torch.rand(3, 3, requires_grad=True)
    out = f(x)
    with torch.no_grad():
        g = grad(c)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = vmap(compile(lambda r: r @ r))(x), jvp(c, (x,), (x,))
    with torch.inference_mode():
        k = vmap(c)(torch.rand(2, 3, 3))
    return out, g, h, k


def _quiet(z):
    with torch.no_grad():
        return z * z


@program("", "linearize, vjp and jvp: the functions they give, kept and called later")
def linear_parts(compile):
    c = compile(lambda x: x.sin() * x)

    @compile
    def f(x, t):
        y, push = linearize(lambda x: x.cos() * 2, x)
        z, pull = vjp(c, x)
        return y, push(t), z, pull(t), jvp(c, (x,), (t,))

    x, t = torch.rand(3), torch.rand(3)
    y, push = linearize(c, x)
    z, pull = vjp(compile(lambda x: {"a": x * x, "b": x.sum()}), x)
    return f(x, t), y, push(t), push(t * 2), z, pull({"a": t, "b": torch.ones(())}), compile(lambda t: push(t) * 2)(t)


@program("", "hessians: forward over reverse, reverse over forward, vectors, structures")
def second_order(compile):
    c = compile(lambda x, y: (x**2 * y).sum())

    @compile
    def f(x, y):
        a = hessian(c, argnums=(0, 1))(x, y)
        b = jacfwd(jacrev(c))(x, y)
        d = jacrev(jacfwd(c))(x, y)
        e = jvp(grad(c), (x, y), (x, y))[1]
        return a, b, d, e, vmap(hessian(lambda v: (v**3).sum()))(torch.stack([x, y]))

    x, y = torch.rand(2), torch.rand(2)
    return f(x, y), hessian(c)(x, y), vjp(grad(c), x, y)[1](x), grad(lambda x: grad(c)(x, y).norm())(x)


@program("", "forward-mode: dual inputs, nested levels, results that are primal, tangents of inputs written to")
def forward_mode(compile):
    c = compile(lambda x, y: (x * y.sin(), y))

    @compile
    def made_inside(x, t):
        with fwad.dual_level():
            d = fwad.make_dual(x, t)
            y = d * d
            y.mul_(2)
            p, tangent = fwad.unpack_dual(y)
            plain = fwad.unpack_dual(x * 2).tangent
        return p + 0, tangent + 0, plain is None

    x, t = torch.rand(3), torch.rand(3)
    out = [c(x, t), made_inside(x, t)]
    with fwad.dual_level():
        a, b = c(fwad.make_dual(x, t), x)
        out += [tuple(p + 0 if p is not None else None for p in fwad.unpack_dual(v)) for v in (a, b)]
        out.append(_raised(compile(lambda: fwad.enter_dual_level())))  # levels do not nest
    out.append(_raised(compile(lambda x: fwad.make_dual(x, x)), x))
    return out, c(x, t), fwad._current_level


@program("", "forward-mode through a compiled module with parameters that need gradients, and backward of the tangent")
def forward_then_backward(compile):
    m = nn.Linear(2, 2)
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    c = compile(nn.Sequential(m, nn.Tanh()))
    x = torch.rand(1, 2, requires_grad=True)
    with fwad.dual_level():
        y, t = fwad.unpack_dual(c(fwad.make_dual(x, torch.ones_like(x))))
        (y.sum() + t.sum()).backward()
    return x.grad, [p.grad for p in m.parameters()], c(x)


@program("", "autograd.functional with create_graph, strict, vectorize and structures, inside and around")
def functional_api(compile):
    a = torch.autograd.functional
    c = compile(lambda x, y: (x**2 * y).sum())
    v = compile(lambda x: (x * x.sum(), x.sin()))

    @compile
    def f(x, y):
        j = a.jacobian(lambda z: z * z * y, x, create_graph=True)
        return j, a.hessian(c, (x, y)), a.vjp(v, x, (y, y)), a.jvp(v, x, y), a.hvp(lambda z: c(z, y), x, y)

    x, y = torch.rand(3, requires_grad=True), torch.rand(3)
    out = f(x, y)
    out[0].sum().backward()
    return (
        out,
        x.grad,
        a.jacobian(v, x, vectorize=True, strategy="forward-mode"),
        a.vhp(c, (x, y), (y, x)),
        _raised(lambda: a.jacobian(compile(lambda x: torch.ones(3) * 2), x, strict=True)),
        a.jacobian(compile(lambda x: torch.ones(3)), x),
    )


@program("", "what can't be done under a transform raises as in eager: items, branches, in-place writes to outer tensors")
def transform_errors(compile):
    x, buf = torch.rand(2, 3), torch.zeros(3)
    fns = [
        lambda r: r * r.sum().item(),
        lambda r: r if r.sum() > 0 else -r,
        lambda r: buf.add_(r),
        lambda r: r.nonzero(),
        lambda r: r.data_ptr(),
        lambda r: print(r.shape) or r * 2,
    ]
    inside = [_raised(compile(lambda x, fn=fn: vmap(fn)(x)), x) for fn in fns]
    around = [_raised(vmap(compile(fn)), x) for fn in fns]
    grads = [_raised(grad(compile(lambda r, fn=fn: fn(r).sum())), x[0]) for fn in fns[:3]]
    return inside, around, grads, buf, compile(lambda x: x + 1)(x)


@program("", "the same compiled function plain, transformed, and plain again; a transform kept and called under another")
def alternating(compile):
    c = compile(lambda x: (x.exp() * x).sum())
    g = grad(c)
    h = compile(g)
    k = compile(lambda x: vmap(h)(x).sum(0))
    x = torch.rand(2, 3)
    return c(x[0]), g(x[0]), h(x[0]), vmap(h)(x), k(x), c(x[1]), vmap(grad(lambda x: h(x).sum()))(x), h(x[1])


@program("", "a transform that is compiled itself: nothing is captured, and its results are eager's")
def compiled_itself(compile):
    def loss(w, x):
        return (x @ w).sin().sum()

    w, x = torch.ones(3), torch.arange(6.0).reshape(2, 3)
    return compile(vmap(grad(loss), in_dims=(None, 0)))(w, x), compile(grad(loss))(w, x)


@program("", "the module of an exported program is one graph, and its checks refuse what eager's refuse")
def exported_module(compile):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 2))

        def forward(self, x):
            return (x @ self.weight).relu()

    module = torch.export.export(Model(), (torch.ones(3, 4),)).module()
    f = compile(module, fullgraph=True)
    found = [f(torch.ones(3, 4))]
    try:
        f(torch.ones(2, 4))
    except AssertionError as e:
        found.append(str(e))
    return found


@program("", "where an operand has no tangent its zeros are no factor: infinite and missing numbers stay what they are")
def missing_tangents(compile):
    d = torch.tensor([float("inf"), 1.0, -2.0, float("nan"), 0.0])

    @compile
    def f(d):
        product = jvp(lambda s: (lambda t: torch.relu(s) * t)(d), (d,), (d,))
        quotient = jvp(lambda s: s / d + d - s.amax() * d, (d,), (d,))
        rows = vmap(lambda s, t: jvp(lambda s: (s * t) * t, (s,), (t,))[1])(d, d)
        views = jvp(lambda s: s.view(5, 1) * d[1:].view(1, 4).expand(5, 4).T.reshape(5, 4), (d,), (d,))
        scans = jvp(lambda s: (lambda t: s.cumsum(-1) + t.cumsum(-1))(d * 2), (d,), (d,))
        pairs = vmap(vmap(lambda s, t: jvp(lambda s: (s * t + t) / t, (s,), (t,))))(d.expand(2, 5), d.expand(2, 5))
        turned = jvp(lambda s: (s.view(5, 1) + d).t() * d.view(5, 1), (d,), (d,))
        mixed = jvp(lambda s: s * d.double() - torch.addcmul(d, s, d), (d,), (d,))
        chosen = jacfwd(lambda s, t: s.amax(-1, keepdim=True) * t)(d, d)
        return product, quotient, rows, views, scans, pairs, turned, mixed, chosen

    return f(d), f(d * 0 + 1)


@program("", "gradients through forward derivatives: without a tangent infinite gradients meet no ordinary zeros")
def gradients_of_missing_tangents(compile):
    bodies = [
        lambda a: jacfwd(lambda s: s.mul(2.0))(a).sum(0).neg().log(),
        lambda a: jacfwd(lambda s, t: s * t + t)(a, a * 0).sum(0).log(),
        lambda a: jvp(lambda s: s * a / 2.0, (a,), (a * 0,))[1].log(),
        lambda a: vmap(lambda s, t: jvp(lambda s: s * t - s, (s,), (t,))[1])(a, a * 0).sqrt(),
        lambda a: jacfwd(jacfwd(lambda s: s.sum() * 2.0))(a).log(),
    ]
    found = []
    for body in bodies:
        a = torch.tensor([0.5, -1.0, 0.0], requires_grad=True)
        result = compile(body)(a)
        result.sum().backward()
        found += [result.detach(), a.grad if a.grad is None else a.grad.clone()]
    return found


@program("", "vmap over views that autograd refuses to read, as another of their base was written")
def vmap_over_refused_views(compile):
    def of_a_jacobian(z, x):
        z = torch.func.jacfwd(lambda s, t: s**2 * t)(z, x)[0, 1]
        with torch.no_grad():
            z += 1
        return vmap(lambda s: s * 2)(z)

    def of_a_part(z, x):
        z = (z * x).split(1)[0]
        with torch.no_grad():
            z += 1
        return vmap(lambda s: s * 2)(z)

    def differentiated(z, x):
        z = (z * x).unbind()[0]
        with torch.no_grad():
            z += 1
        return vmap(grad(lambda s: s.sin()))(z)

    z = torch.linspace(-1, 1, 9).view(3, 3)
    x = torch.linspace(1, 2, 9).view(3, 3).requires_grad_()
    return [_raised(lambda fn=fn: compile(fn)(z, x)) for fn in (of_a_jacobian, of_a_part, differentiated) for _ in range(2)]


@program("", "forward-mode derivatives with tangents made in inference mode: autograd copies those of another layout, and saves no others")
def tangents_of_inference(compile):
    def f(x, z):
        with torch.inference_mode():
            y = z + 1
        return torch.func.jvp(torch.sin, (x,), (y,))[1]

    part = torch.linspace(-1, 1, 18).view(6, 3)[1:4]
    found = []
    for x in (torch.linspace(-1, 1, 9).view(3, 3), part):
        for learned in (False, True):
            leaf = x.detach().requires_grad_(learned)
            for _ in range(2):
                out = _raised(compile(f), leaf, torch.ones(3, 3))
                found.append((out, out.is_inference(), out.requires_grad) if isinstance(out, torch.Tensor) else out)
    return found
