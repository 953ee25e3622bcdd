"""More forms of `torch.autograd.Function`: what is marked, saved, missing, transformed and inherited."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro_corpus.program import program


def _leaf(*shape):
    return torch.rand(*shape, requires_grad=True)


def _raised(fn, *args):
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the program compares what is raised
        return type(e), str(e).splitlines()[0] if str(e) else ""


class Cube(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, k):
        return x**3 * k, x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k = inputs
        ctx.save_for_backward(x, output[1])
        ctx.save_for_forward(x)
        ctx.k = k

    @staticmethod
    def backward(ctx, g, h):
        x, sq = ctx.saved_tensors
        return g * sq * 3 * ctx.k + h * 2 * x, None

    @staticmethod
    def jvp(ctx, t, _):
        (x,) = ctx.saved_tensors
        return t * x**2 * 3 * ctx.k, 2 * x * t


class WithVmap(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info, in_dims, x):
        return WithVmap.apply(x) + info.batch_size * 0, in_dims[0]


@program("", "generate_vmap_rule, vmap and jvp of functions, inside and around")
def transformed(compile):
    @compile
    def f(x):
        a = torch.func.vmap(lambda x: Cube.apply(x, 2.0)[0])(x)
        b = torch.func.grad(lambda x: Cube.apply(x, 2.0)[0].sum())(x)
        c = torch.func.jvp(lambda x: Cube.apply(x, 2.0)[0], (x,), (torch.ones_like(x),))
        return a, b, c, torch.func.vmap(WithVmap.apply, in_dims=1, out_dims=1)(x), WithVmap.apply(x)

    g = compile(lambda x: Cube.apply(x, 3.0)[0].sum() + WithVmap.apply(x).sum())
    x = torch.rand(2, 3)
    return (
        f(x),
        torch.func.vmap(g)(x),
        torch.func.grad(g)(x),
        torch.func.vmap(torch.func.grad(g))(x),
        torch.func.jacrev(torch.func.jacrev(g))(x),
        g(x),
    )


@program("", "several results with gradients, of which one is not used")
def unused_result(compile):
    f = compile(lambda x: Cube.apply(x, 2.0)[0].sum())
    g = compile(lambda x: Cube.apply(x, 2.0)[1].sum())
    x, y = _leaf(3), _leaf(3)
    f(x).backward()
    g(y).backward()
    return x, y


@program("", "mark_dirty of one of several inputs, and its view")
def dirty(compile):
    class AddInto(Function):
        @staticmethod
        def forward(ctx, acc, x):
            ctx.mark_dirty(acc)
            acc.add_(x)
            return acc, x * 2

        @staticmethod
        def backward(ctx, g, h):
            return g * 3, g + h * 2

    @compile
    def f(x, w):
        acc = w * 1
        a, b = AddInto.apply(acc, x)
        return (a * b).sum() + acc.sum(), a is acc

    x, w = _leaf(3), _leaf(3)
    y, same = f(x, w)
    y.backward()
    buffer = torch.zeros(3)
    z = compile(lambda b, x: AddInto.apply(b, x)[1].sum())(buffer, x.detach())
    return y, same, x.grad, w.grad, buffer, z


@program("", "set_materialize_grads(False) and None gradients, one and both results used")
def not_materialized(compile):
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None and h is None:
                return None
            if h is None:
                return g * 20
            if g is None:
                return h * 30
            return g * 2 + h * 3

    out = []
    for pick in (lambda a, b: a.sum(), lambda a, b: b.sum(), lambda a, b: (a * b).sum()):
        x = _leaf(3)
        compile(lambda x, pick=pick: pick(*Two.apply(x * 1)))(x).backward()
        out.append(x.grad)
    return out


@program("", "saved None, inputs, outputs, intermediates, and the same tensor twice")
def saved_kinds(compile):
    class Saves(Function):
        @staticmethod
        def forward(ctx, x, w, b):
            mid = x.sin()
            y = mid * w if b is None else mid * w + b
            ctx.save_for_backward(x, None, w, y, mid, x, b)
            return y

        @staticmethod
        def backward(ctx, g):
            x, none, w, y, mid, again, b = ctx.saved_tensors
            assert none is None
            return g * w * x.cos() + y * 0 + (again - x), g * mid, None if b is None else g * 2

    @compile
    def f(x, w, b):
        return Saves.apply(x, w, None).sum() + Saves.apply(x, w, b).sum()

    x, w, b = _leaf(3), _leaf(3), _leaf(3)
    f(x, w, b).backward()
    return x, w, b


@program("", "needs_input_grad decides what backward computes, per call")
def needs(compile):
    class Pick(Function):
        @staticmethod
        def forward(ctx, x, w, k):
            ctx.flags = tuple(ctx.needs_input_grad)
            ctx.save_for_backward(x, w)
            return x * w * k

        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            gx = g * w * 2 if ctx.needs_input_grad[0] else None
            gw = g * x * 3 if ctx.flags[1] else None
            return gx, gw, None

    f = compile(lambda x, w: Pick.apply(x, w, 2).sum())
    out = []
    for a, b in ((True, True), (True, False), (False, True)):
        x, w = torch.rand(3, requires_grad=a), torch.rand(3, requires_grad=b)
        f(x, w).backward()
        out += [x.grad, w.grad]
    with torch.no_grad():
        return out, f(x, w)


@program("", "results that are inputs, views of inputs, and integer results that are marked")
def result_kinds(compile):
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    class View(Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(2, 2) * 6

    class TopK(Function):
        @staticmethod
        def forward(ctx, x):
            v, i = x.topk(2)
            ctx.mark_non_differentiable(i)
            ctx.save_for_backward(i)
            ctx.n = x.shape[-1]
            return v, i

        @staticmethod
        def backward(ctx, g, _):
            (i,) = ctx.saved_tensors
            return g.new_zeros(ctx.n).scatter(0, i, g * 7)

    @compile
    def f(x, v):
        a = Same.apply(x)
        b = View.apply(x * 1)
        t, i = TopK.apply(v)
        return a.sum() + (b * b).sum() + t.sum(), a is x, i, i.requires_grad, t.requires_grad

    x, v = _leaf(2, 2), torch.tensor([1.0, 5.0, 3.0], requires_grad=True)
    y, *rest = f(x, v)
    y.backward()
    return y, rest, x, v


@program("", "once_differentiable: the gradient, and the error of differentiating twice")
def once(compile):
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * 4

    f = compile(lambda x: Once.apply(x).sum())

    def twice(x):
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        g.sum().backward()
        return x.grad

    x = _leaf(3)
    f(x).backward()
    return x, _raised(twice, _leaf(3))


@program("", "a function applied in the forward and the backward of another")
def nested(compile):
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos() * 2

    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                ctx.inner = Inner.apply(y * 2)
                ctx.y = y
            return ctx.inner.detach() * 1

        @staticmethod
        def backward(ctx, g):
            (gy,) = torch.autograd.grad(ctx.inner, ctx.y, g)
            return gy + Inner.apply(g) * 0

    class Chain(Function):
        @staticmethod
        def forward(ctx, x):
            return Inner.apply(x) * 2

        @staticmethod
        def backward(ctx, g):
            return Inner.apply(g) * 3

    x, y = _leaf(3), _leaf(3)
    compile(lambda x: Outer.apply(x).sum())(x).backward()
    compile(lambda x: Chain.apply(Inner.apply(x)).sum())(y).backward()
    return x, y


@program("", "attributes on ctx of every kind, arguments of every kind")
def attributes(compile):
    class Config:
        def __init__(self, k):
            self.k = k

    class Rich(Function):
        @staticmethod
        def forward(ctx, x, config, names, table, fn, dtype, *rest, **kw):
            ctx.config, ctx.names, ctx.table, ctx.fn, ctx.shape = config, list(names), dict(table), fn, x.shape
            ctx.extra = {"rest": rest, "n": len(kw)}
            ctx.tensor = x.detach() * 2
            return fn(x.to(dtype) * config.k * table["a"] + sum(rest))

        @staticmethod
        def backward(ctx, g):
            assert g.shape == ctx.shape
            return (g.float() * ctx.config.k * ctx.table["a"] * len(ctx.names) + ctx.tensor, *[None] * (5 + len(ctx.extra["rest"])))

    @compile
    def f(x, k):
        return Rich.apply(x, Config(k), ("a", "b"), {"a": 2.0}, torch.neg, torch.float64, 1, 2).sum()

    x = _leaf(3)
    f(x, 2).backward()
    a, x.grad = x.grad, None
    f(x, 5).backward()
    return a, x


@program("", "instances, apply through variables, classes from a factory, and a subclass of a subclass")
def ways_to_apply(compile):
    def make(k):
        class Made(Function):
            @staticmethod
            def forward(ctx, x):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return g * (k + 1)

        return Made

    class Middle(make(3)):
        @staticmethod
        def forward(ctx, x):
            return super(Middle, Middle).forward(ctx, x) + 1

    class Leaf(Middle):
        @classmethod
        def call(cls, x):
            return cls.apply(x)

    table = {"a": make(2).apply, "b": make(5)}
    held = make(7)()

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.fn = table["a"]
            self.made = held

        def forward(self, x):
            return self.fn(x) + self.made.apply(x)

    m = M()

    @compile
    def f(x):
        name = "b"
        out = table["a"](x).sum() + table[name].apply(x).sum() + Leaf.call(x).sum() + getattr(Middle, "apply")(x).sum()
        for k in (1, 2):
            out = out + make(k).apply(x).sum()
        return out + m(x).sum()

    x = _leaf(3)
    y = f(x)
    y.backward()
    return y, x


@program("", "errors: too few gradients, wrong shapes, no backward, saving in setup_context what is no tensor, raising methods")
def function_errors(compile):
    def make(backward, forward=lambda ctx, x: x * 2):
        return type("Made", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})

    def run(cls, *args):
        x = torch.ones(3, requires_grad=True)
        compile(lambda x: cls.apply(x, *args).sum())(x).backward()
        return x.grad

    def refuse(*args):
        raise KeyError("refused")

    none = type("NoBackward", (Function,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    return [
        _raised(run, make(lambda ctx, g: (g, g))),
        _raised(run, make(lambda ctx, g: g[:2])),
        _raised(run, make(lambda ctx, g: ())),
        _raised(run, make(lambda ctx, g: None)),
        _raised(run, make(refuse)),
        _raised(run, make(lambda ctx, g: g, refuse)),
        _raised(run, make(lambda ctx, g: g, lambda ctx, x: 3)),
        _raised(run, make(lambda ctx, g: g, lambda ctx, x: ctx.save_for_backward(3) or x * 2)),
        _raised(run, make(lambda ctx, g: g, lambda ctx, x: x.add_(1))),
        _raised(run, make(lambda ctx, g: g * ctx.missing)),
        _raised(run, none),
        _raised(run, make(lambda ctx, g: g), 1),
        _raised(compile(lambda x: Function.apply(x)), torch.ones(1)),
    ]


@program("", "under autocast with custom_fwd and custom_bwd, under no_grad, and with mixed dtypes")
def autocast_forms(compile):
    class Mm(Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            return g @ w.t() * 2, x.t() @ g

    @compile
    def f(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = x @ w
            y = Mm.apply(h, w)
        return h.dtype, y.dtype, y.float().sum()

    x, w = _leaf(2, 2), _leaf(2, 2)
    *dtypes, y = f(x, w)
    y.backward()
    return dtypes, y, x, w


@program("", "hooks on results, retain_graph and double backward through a function")
def observed(compile):
    seen = []

    @compile
    def f(x):
        y, sq = Cube.apply(x * 1, 2.0)
        return y, sq

    x = _leaf(3)
    y, sq = f(x)
    y.register_hook(lambda g: seen.append(g.clone()) if g is not None else None)
    (y.sum() + sq.sum()).backward(retain_graph=True)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    g.sum().backward()
    return seen, x
