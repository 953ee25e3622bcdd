"""`torch.autograd.Function` in its forms, captured in a graph or run between graphs."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from repro_corpus.program import program


class Scale(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k * 10, None


class Square(Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * 7


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def _leaf(*shape):
    return torch.rand(*shape, requires_grad=True)


@program("", "constants on ctx, a gradient that is not the derivative")
def constant_on_ctx(compile):
    @compile
    def f(x):
        return (Scale.apply(x, 3.0) + x).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "setup_context")
def setup_context(compile):
    @compile
    def f(x):
        return Square.apply(x * 2).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "straight-through estimator, differentiated twice")
def straight_through(compile):
    f = compile(lambda x: (StraightThrough.apply(x * 3) * x).sum())
    x = _leaf(3)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    g.sum().backward()
    return g, x


@program("", "apply through a variable, an attribute and functools.partial")
def apply_through_variables(compile):
    import functools

    scale = Scale.apply
    part = functools.partial(Scale.apply, k=None) if False else functools.partial(scale)

    class Holder:
        fn = staticmethod(Scale.apply)

    @compile
    def f(x):
        return scale(x, 2.0).sum() + Holder.fn(x, 3.0).sum() + part(x, 4.0).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "a module that holds the class and calls apply")
def module_holds_class(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.fn = Square
            self.lin = nn.Linear(3, 3)

        def forward(self, x):
            return self.fn.apply(self.lin(x))

    m = M()
    compile(m)(torch.rand(2, 3)).sum().backward()
    return list(m.parameters())


@program("", "an instance's apply")
def instance_apply(compile):
    s = StraightThrough()

    @compile
    def f(x):
        return s.apply(x * 2).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "an instance made inside")
def instance_made_inside(compile):
    @compile
    def f(x):
        return StraightThrough().apply(x * 2).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "several inputs and outputs, one without gradient, None among results")
def several(compile):
    class Two(Function):
        @staticmethod
        def forward(ctx, a, b, flag):
            ctx.save_for_backward(a, b)
            ctx.flag = flag
            return a * b, a + b, None

        @staticmethod
        def backward(ctx, g, h, n):
            a, b = ctx.saved_tensors
            return g * b + h, (g * a + h if ctx.flag else None), None

    @compile
    def f(a, b):
        p, s, n = Two.apply(a, b, True)
        return p.sum() + 2 * s.sum(), n

    a, b = _leaf(3), _leaf(3)
    y, n = f(a, b)
    y.backward()
    return a, b, n


@program("", "mark_non_differentiable")
def non_differentiable(compile):
    class Sorted(Function):
        @staticmethod
        def forward(ctx, x):
            v, i = x.sort()
            ctx.mark_non_differentiable(i)
            ctx.save_for_backward(i)
            return v, i

        @staticmethod
        def backward(ctx, g, _):
            (i,) = ctx.saved_tensors
            return torch.zeros_like(g).index_add(0, i, g) * 2

    @compile
    def f(x):
        v, i = Sorted.apply(x)
        return v * torch.arange(3.0), i

    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    v, i = f(x)
    v.sum().backward()
    return v, i, i.requires_grad, x


@program("", "mark_non_differentiable of a floating-point result")
def non_differentiable_float(compile):
    class Split(Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x * 2, x * 3
            ctx.mark_non_differentiable(b)
            return a, b

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h

    @compile
    def f(x):
        a, b = Split.apply(x)
        return a, b, a.requires_grad, b.requires_grad

    x = _leaf(3)
    a, b, ra, rb = f(x)
    a.sum().backward()
    return a, b, ra, rb, x


@program("", "mark_dirty")
def mark_dirty(compile):
    class AddOne(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    @compile
    def f(x):
        y = x * 2
        z = AddOne.apply(y)
        return z is y, (y * z).sum()

    x = _leaf(3)
    same, s = f(x)
    s.backward()
    return same, s, x


@program("", "mark_dirty of an input of the frame")
def mark_dirty_input(compile):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    @compile
    def f(x):
        return Doubled.apply(x)

    w = _leaf(3)
    x = w * 1
    y = f(x)
    y.sum().backward()
    return y is x, x, w


@program("", "set_materialize_grads(False)")
def materialize_grads(compile):
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            if g is None:
                return h * 100
            if h is None:
                return g * 10
            return g + h

    f = compile(lambda x: Two.apply(x))
    x = _leaf(3)
    f(x)[1].sum().backward()
    return x


@program("", "set_materialize_grads(False) with one result unused inside")
def materialize_grads_inside(compile):
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 10 if h is None else g + h

    f = compile(lambda x: Two.apply(x)[0].sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "once_differentiable")
def once(compile):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    f = compile(lambda x: Cube.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    try:
        g.sum().backward()
    except RuntimeError as e:
        return x, g.detach(), str(e)
    return x


@program("", "needs_input_grad")
def needs_input_grad(compile):
    class Mul(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            ctx.seen = ctx.needs_input_grad
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            ga = g * b if ctx.needs_input_grad[0] else None
            gb = g * a * 2 if ctx.needs_input_grad[1] else None
            assert ctx.seen == ctx.needs_input_grad
            return ga, gb

    f = compile(lambda a, b: Mul.apply(a, b).sum())
    a, b, c = _leaf(3), torch.rand(3), _leaf(3)
    f(a, b).backward()
    f(b, c).backward()
    f(a, c).backward()
    return a, b, c


@program("", "nested functions, one in the forward and one in the backward of another")
def nested(compile):
    class Outer(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Scale.apply(x, 2.0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return Scale.apply(g, 3.0) * x

    f = compile(lambda x: Outer.apply(x.sin()).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "enable_grad and autograd.grad inside forward")
def grad_inside_forward(compile):
    class Local(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                z = (y**3).sum()
            (g,) = torch.autograd.grad(z, y)
            ctx.save_for_backward(g)
            return z.detach()

        @staticmethod
        def backward(ctx, out):
            return ctx.saved_tensors[0] * out

    f = compile(lambda x: Local.apply(x * 2) * 3)
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "reversible block: backward recomputes with autograd")
def recompute_in_backward(compile):
    lin = nn.Linear(3, 3)

    class Rev(Function):
        @staticmethod
        def forward(ctx, x, *params):
            ctx.save_for_backward(x)
            return lin(x).tanh()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                y = lin(x).tanh()
            return torch.autograd.grad(y, (x, *lin.parameters()), g)

    f = compile(lambda x: Rev.apply(x, *lin.parameters()).sum())
    x = _leaf(2, 3)
    f(x).backward()
    return x, list(lin.parameters())


@program("", "Python effects in forward and backward")
def python_effects(compile):
    log = []

    class Logged(Function):
        @staticmethod
        def forward(ctx, x):
            log.append("f")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append("b")
            return g * 2

    f = compile(lambda x: Logged.apply(x).sum())
    x = _leaf(3)
    for _ in range(2):
        f(x).backward()
    return log, x


@program("", "print in backward")
def print_in_backward(compile):
    class Loud(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            print("backward", g.tolist())
            return g * 2

    f = compile(lambda x: Loud.apply(x).sum())
    x = _leaf(3)
    for _ in range(2):
        f(x).backward()
    return x


@program("", "non-tensor state on ctx: lists, dicts, modules, closures")
def objects_on_ctx(compile):
    class Stateful(Function):
        @staticmethod
        def forward(ctx, x, opts, fn):
            ctx.opts = dict(opts)
            ctx.shapes = [x.shape, x.dtype]
            ctx.fn = fn
            return fn(x) * opts["k"]

        @staticmethod
        def backward(ctx, g):
            assert ctx.shapes[0] == g.shape
            return ctx.fn(g) * ctx.opts["k"], None, None

    f = compile(lambda x: Stateful.apply(x, {"k": 3}, torch.neg).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "a tensor kept on ctx as an attribute")
def tensor_attribute_on_ctx(compile):
    class Kept(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.y = x.exp()
            return ctx.y * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.y * 4

    f = compile(lambda x: Kept.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "an input returned as it is")
def returns_input(compile):
    class Reverse(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -ctx.k * g, None

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 9

    @compile
    def f(x):
        y = Same.apply(x)
        return Reverse.apply(x * 2, 0.5).sum() + y.sum(), y is x

    x = _leaf(3)
    y, same = f(x)
    y.backward()
    return x, same


@program("", "wrong number of gradients raises")
def wrong_number(compile):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y

        @staticmethod
        def backward(ctx, g):
            return g

    f = compile(lambda x, y: Bad.apply(x, y).sum())
    try:
        f(_leaf(2), _leaf(2)).backward()
    except RuntimeError as e:
        return type(e)
    return "no error"


@program("", "a backward that raises")
def raising_backward(compile):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no gradient")

    f = compile(lambda x: Bad.apply(x).sum())
    try:
        f(_leaf(2)).backward()
    except ValueError as e:
        return str(e)
    return "no error"


@program("", "a backward of another shape raises")
def wrong_shape(compile):
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.new_ones(5)

    f = compile(lambda x: Bad.apply(x).sum())
    try:
        f(_leaf(2)).backward()
    except RuntimeError as e:
        return type(e)
    return "no error"


@program("", "no backward at all")
def no_backward(compile):
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    f = compile(lambda x: Half.apply(x).sum())
    y = f(_leaf(2))
    try:
        y.backward()
    except (RuntimeError, NotImplementedError) as e:
        return y, type(e)
    return "no error"


@program("", "vjp instead of backward, and a jvp")
def vjp_and_jvp(compile):
    import torch.autograd.forward_ad as fwad

    class Both(Function):
        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def vjp(ctx, g):
            return g * ctx.saved_tensors[0] * 2

        @staticmethod
        def jvp(ctx, t):
            return t * ctx.saved_tensors[0] * 20

    f = compile(lambda x: Both.apply(x) + 1)
    x = _leaf(3)
    f(x).sum().backward()
    with fwad.dual_level():
        t = fwad.unpack_dual(f(fwad.make_dual(x.detach(), torch.ones(3)))).tangent.clone()
    return x, t


@program("", "generate_vmap_rule and a vmap staticmethod")
def vmap_rules(compile):
    class Auto(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.sin()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos() * 2

    class Own(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 3

        @staticmethod
        def vmap(info, dims, x):
            return x * 2 + info.batch_size, dims[0]

    f = compile(lambda x: Auto.apply(x) + Own.apply(x))
    x = _leaf(3)
    f(x).sum().backward()
    y = torch.rand(2, 3)
    return x, torch.vmap(f)(y), torch.func.grad(lambda y: f(y).sum())(y)


@program("", "a function under no_grad, and one whose inputs need no gradient")
def without_gradients(compile):
    f = compile(lambda x: Scale.apply(x, 2.0))
    x = _leaf(3)
    with torch.no_grad():
        a = f(x)
    return a, f(torch.ones(3)), f(x)


@program("", "save_for_backward of results and of intermediates")
def saved_results(compile):
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            z = y + 1
            ctx.save_for_backward(y, z, None, x)
            return y

        @staticmethod
        def backward(ctx, g):
            y, z, n, x = ctx.saved_tensors
            assert n is None
            return g * y + z * x

    f = compile(lambda x: Exp.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "parameters read from a closure by forward")
def closure_parameters(compile):
    w = nn.Parameter(torch.rand(3))

    class Use(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * w

        @staticmethod
        def backward(ctx, g):
            return g * w.detach() * 2

    f = compile(lambda x: Use.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    with torch.no_grad():
        w.mul_(2)
    f(x).backward()
    return x, w


@program("", "a class made in the function")
def class_made_inside(compile):
    @compile
    def f(x):
        class Local(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 30

        return Local.apply(x).sum()

    x = _leaf(3)
    f(x).backward()
    return x


@program("", "subclasses share forward, call super's static methods, and use class attributes")
def inheritance(compile):
    class Base(Function):
        k = 2.0

        @classmethod
        def factor(cls):
            return cls.k

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    class Child(Base):
        k = 5.0

        @staticmethod
        def backward(ctx, g):
            return Base.backward(ctx, g) * Child.factor()

    f = compile(lambda x: (Child.apply(x) + Base.apply(x)).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "backward replaced after compiling")
def backward_replaced(compile):
    class Changing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    f = compile(lambda x: Changing.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    a = x.grad.clone()
    Changing.backward = staticmethod(lambda ctx, g: g * 50)
    x.grad = None
    f(x).backward()
    return a, x


@program("", "random numbers in forward and backward")
def random_inside(compile):
    class Noise(Function):
        @staticmethod
        def forward(ctx, x):
            mask = torch.rand_like(x) > 0.5
            ctx.save_for_backward(mask)
            return x * mask

        @staticmethod
        def backward(ctx, g):
            (mask,) = ctx.saved_tensors
            return g * mask * 2

    f = compile(lambda x: Noise.apply(x).sum())
    x = _leaf(8)
    y = f(x)
    y.backward()
    return y, x


@program("", "numpy and .item() in forward")
def numpy_inside(compile):
    class Np(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.n = x.max().item()
            return torch.from_numpy(x.detach().numpy() * 2)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.n

    f = compile(lambda x: (Np.apply(x * 2) + 1).sum())
    x = torch.tensor([1.0, 4.0], requires_grad=True)
    f(x).backward()
    return x


@program("", "keyword arguments and defaults of forward")
def defaults(compile):
    class Opt(Function):
        @staticmethod
        def forward(ctx, x, k=3, *, unused=None):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    f = compile(lambda x: Opt.apply(x).sum() + Opt.apply(x, 4).sum())
    x = _leaf(3)
    try:
        f(x).backward()
    except RuntimeError as e:
        return type(e)
    return x


@program("", "clear_saved_tensors and reading saved tensors twice")
def saved_twice(compile):
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors[0], ctx.saved_tensors[0]
            return g * a + b

    f = compile(lambda x: Twice.apply(x).sum())
    x = _leaf(3)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    return x


@program("", "a function in a checkpoint and in a module with hooks")
def in_checkpoint(compile):
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return Square.apply(x.sin()) + StraightThrough.apply(x * 4)

    f = compile(lambda x: checkpoint(block, x, use_reentrant=False).sum())
    x = _leaf(3)
    f(x).backward()
    return x


@program("", "inputs in a list are not tracked")
def list_of_tensors(compile):
    class Cat(Function):
        @staticmethod
        def forward(ctx, xs, *more):
            return sum(xs) * 2 + sum(more)

        @staticmethod
        def backward(ctx, g):
            return None, g * 3, g * 4

    @compile
    def f(a, b):
        return Cat.apply([a, b], a, b).sum()

    a, b = _leaf(3), _leaf(3)
    f(a, b).backward()
    return a, b


@program("", "complex and integer results")
def dtypes(compile):
    class Complexify(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.complex(x, x * 2)

        @staticmethod
        def backward(ctx, g):
            return g.real + g.imag

    class Count(Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0.5).sum()

        @staticmethod
        def backward(ctx, g):
            return None

    @compile
    def f(x):
        return Complexify.apply(x).abs().sum(), Count.apply(x)

    x = _leaf(3)
    y, n = f(x)
    y.backward()
    return y, n, n.requires_grad, x


@program("", "effects in backward alone happen once per backward")
def effects_in_backward(compile):
    log = []
    seen = {"n": 0}

    class Logged(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append(tuple(g.shape))
            seen["n"] += 1
            return g * 2

    f = compile(lambda x: (Logged.apply(x) * 3).sum())
    x = _leaf(3)
    for _ in range(3):
        f(x).backward()
    return log, seen, x


@program("", "backward depends on a global flag that changes")
def backward_reads_flag(compile):
    class Flagged(Function):
        scale = 1.0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * Flagged.scale

    f = compile(lambda x: Flagged.apply(x).sum())
    x = _leaf(3)
    f(x).backward()
    a, x.grad = x.grad, None
    Flagged.scale = 5.0
    f(x).backward()
    return a, x


@program("", "state of ctx changed by backward, with retain_graph")
def backward_changes_ctx(compile):
    class Counting(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.n = 0
            return x * 2

        @staticmethod
        def backward(ctx, g):
            ctx.n += 1
            return g * ctx.n

    f = compile(lambda x: Counting.apply(x).sum())
    x = _leaf(3)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    return x


@program("", "saved tensors changed in place before backward raise")
def saved_changed(compile):
    f = compile(lambda x, w: (Square.apply(w * 1) * Square.apply(x)).sum())
    x, w = _leaf(3), _leaf(3)
    y = f(x, w)
    with torch.no_grad():
        x.add_(1)
    try:
        y.backward()
    except RuntimeError as e:
        return type(e)
    return x, w
