"""Programs after public reports about autograd, its transforms and modes around compiled functions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from repro_corpus.program import program


@program("pytorch#176854", "detach_() of an intermediate left requires_grad on")
def detach_in_place_flag(compile):
    @compile
    def f(x):
        y = x.exp()
        before = y.requires_grad
        y.detach_()
        return y * 3, before, y.requires_grad, y.is_leaf

    return f(torch.rand(4, requires_grad=True))


@program("pytorch#136662", "func.grad of a function that adds to a column twice lost one of the two")
def grad_of_repeated_column_writes(compile):
    def total(x):
        y = torch.zeros_like(x)
        y[:, 1] += x[:, 0].abs()
        y[:, 1] += x[:, 0].abs()
        y[0] *= 2
        return y.sum()

    x = torch.randn(3, 3)
    return compile(lambda x: torch.func.grad(total)(x))(x), compile(torch.func.grad(total))(x)


@program("pytorch#91468", "retain_grad inside, on an intermediate and on a result")
def retain_grad_of_both(compile):
    @compile
    def f(x):
        y = x.sin()
        y.retain_grad()
        z = y * y
        z.retain_grad()
        return z, y

    x = torch.rand(3, requires_grad=True)
    z, y = f(x)
    (z * 2).sum().backward()
    return z.grad, y.grad, x


@program("pytorch#91468", "a hook on an intermediate, registered after a break")
def hook_after_break(compile):
    @compile
    def f(x):
        y = x * x
        print("break")
        y.register_hook(lambda g: g * 5)
        z = y * x
        return torch.autograd.grad(z.sum(), x)[0]

    return f(torch.rand(3, requires_grad=True))


@program("pytorch#181581", "gradients taken inside with create_graph lost their history for matmul and relu")
def create_graph_keeps_history(compile):
    @compile
    def f(x, w):
        y = F.relu(x @ w)
        return torch.autograd.grad(y.sum(), [x, w], create_graph=True)

    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    gx, gw = f(x, w)
    flags = gx.requires_grad, gw.requires_grad, gx.grad_fn is not None
    (gx.sum() + gw.sum()).backward()
    return flags, gx, gw, x, w


@program("pytorch#183603", "a second derivative of what a function that differentiates gives back")
def derivative_of_derivative(compile):
    @compile
    def f(x):
        return torch.autograd.grad((x**5).sum(), x, create_graph=True)[0]

    x = torch.tensor([0.5, 1.5], requires_grad=True)
    g = f(x)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    return g, h, torch.autograd.grad(h.sum(), x)[0]


@program("pytorch#91469", "first and second derivative in one function, with a break between")
def both_derivatives_inside(compile):
    @compile
    def f(x):
        y = x.sin() * x
        print("break")
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return g, h

    return f(torch.rand(3, requires_grad=True))


@program("pytorch#133230", "a module that returns a function and its derivative")
def module_with_derivative(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))

        def forward(self, x):
            u = self.net(x)
            du = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
            return u, du

    m = M()
    x = torch.linspace(0, 1, 5)[:, None].requires_grad_()
    u, du = compile(m)(x)
    (u.pow(2).mean() + (du - 1).pow(2).mean()).backward()
    return u, du, list(m.parameters())


@program("torchmd-net#307", "forces from a compiled energy, trained on")
def force_matching(compile):
    energy = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))
    c = compile(energy)
    pos = torch.rand(4, 3, requires_grad=True)
    e = c(pos)
    force = -torch.autograd.grad(e, pos, torch.ones_like(e), create_graph=True, retain_graph=True)[0]
    (force.pow(2).sum() + e.sum()).backward()
    return e, force, list(energy.parameters())


@program("pytorch#172556", "two results, backward through one")
def backward_through_one_of_two(compile):
    f = compile(lambda x: (x.sin(), x.cos()))
    x = torch.rand(3, requires_grad=True)
    a, b = f(x)
    a.sum().backward()
    return b.requires_grad, x


@program("pytorch#99616", "a target network under no_grad beside one that learns, with detach")
def detached_target(compile):
    online, target = nn.Linear(3, 2), nn.Linear(3, 2)

    @compile
    def loss(x):
        q = online(x)
        with torch.no_grad():
            best = target(x).max(1, keepdim=True).values
        return (q - best.detach()).pow(2).mean() + (q.detach() * best).sum()

    loss(torch.rand(4, 3)).backward()
    return list(online.parameters()), list(target.parameters())


@program("pytorch#193279", "torch.func.grad took the derivative of forward instead of the custom backward")
def custom_backward_under_func_grad(compile):
    class ZeroGrad(Function):
        @staticmethod
        def forward(x):
            return x.cos()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return torch.zeros_like(g)

    x = torch.rand(3)
    loss = lambda x: ZeroGrad.apply(x).sum()  # noqa: E731  # it is both compiled and differentiated
    return compile(torch.func.grad(loss))(x), torch.func.grad(compile(loss))(x), compile(lambda x: torch.func.grad(loss)(x) + 1)(x)


@program("pytorch#192985", "torch.func.jvp ignored the custom jvp")
def custom_jvp_under_func_jvp(compile):
    class Odd(Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def jvp(ctx, t):
            return t * 100

    x = torch.rand(3)
    return compile(lambda x: torch.func.jvp(Odd.apply, (x,), (torch.ones_like(x),)))(x)


@program("pytorch#180642", "a loss in an autograd.Function that works chunk by chunk on a transposed weight")
def chunked_loss_function(compile):
    class Chunked(Function):
        @staticmethod
        def forward(ctx, x, w, labels):
            n, loss = x.shape[0], x.new_zeros(())
            gx, gw = torch.empty_like(x), torch.zeros_like(w)
            for start in range(0, n, 2):
                part = x[start : start + 2]
                p = (part @ w.T).softmax(-1)
                target = F.one_hot(labels[start : start + 2], w.shape[0]).to(p.dtype)
                loss = loss - (p.log() * target).sum()
                d = (p - target) / n
                gx[start : start + 2] = d @ w
                gw += d.T @ part
            ctx.save_for_backward(gx, gw)
            return loss / n

        @staticmethod
        def backward(ctx, g):
            gx, gw = ctx.saved_tensors
            return gx * g, gw * g, None

    @compile
    def f(x, w, labels):
        return Chunked.apply(x * 2, w, labels) * 3

    x, w = torch.randn(5, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    y = f(x, w, torch.tensor([0, 2, 1, 1, 0]))
    y.backward()
    return y, x, w


@program("pytorch#160757", "spiking neuron: a step whose gradient is a surrogate, over time")
def surrogate_gradient(compile):
    class Spike(Function):
        @staticmethod
        def forward(ctx, v, slope=25.0):
            ctx.save_for_backward(v)
            ctx.slope = slope
            return (v > 0).to(v.dtype)

        @staticmethod
        def backward(ctx, g):
            (v,) = ctx.saved_tensors
            return g / (ctx.slope * v.abs() + 1) ** 2, None

    lin = nn.Linear(3, 2)

    @compile
    def run(x):
        mem, out = torch.zeros(2), []
        for t in range(x.shape[0]):
            mem = 0.9 * mem + lin(x[t])
            spike = Spike.apply(mem - 0.5, 25.0)
            mem = mem - spike.detach()
            out.append(spike)
        return torch.stack(out)

    out = run(torch.rand(4, 3))
    out.sum().backward()
    return out, list(lin.parameters())


@program("pytorch#107824", "an autograd.Function in a model, with and without no_grad around the call")
def function_with_and_without_grad(compile):
    class Copy(Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g * 2

    m = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 3))

    @compile
    def f(x):
        return m(Copy.apply(x))

    x = torch.rand(2, 3)
    with torch.no_grad():
        a = f(x)
    b = f(x)
    b.sum().backward()
    return a, b, list(m.parameters())


@program("pytorch#138215", "a backward that can't be captured")
def backward_not_capturable(compile):
    class Clip(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            n = float(g.norm())
            return g / n if n > 1 else g

    f = compile(lambda x: (Clip.apply(x * 2) * 10).sum())
    x = torch.rand(3, requires_grad=True)
    f(x).backward()
    return x


@program("pytorch#176077", "vmap of a compiled function that calls jvp")
def vmap_of_compiled_jvp(compile):
    x = torch.rand(3)

    def directional(t):
        return torch.func.jvp(lambda y: y.sin() * y.sum(), (x,), (t,))[1]

    return torch.vmap(compile(directional))(torch.eye(3))


@program("pytorch#128711", "vmap could not call a compiled function")
def vmap_calls_compiled(compile):
    f = compile(lambda x: x.sin().sum(-1))
    return torch.func.vmap(f)(torch.rand(3, 4)), torch.func.vmap(f, in_dims=1, out_dims=0)(torch.rand(3, 4))


@program("pytorch#138422", "vmap over autograd.grad of a compiled function's result")
def vmap_over_autograd_grad(compile):
    f = compile(lambda x: x**2 + x.sum())
    x = torch.rand(4, requires_grad=True)
    y = f(x)
    return torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])(torch.eye(4))


@program("pytorch#160508", "vmap and jacfwd of an iterated solver")
def vmap_of_jacfwd(compile):
    def distort(xy, k):
        r = (xy * xy).sum()
        return xy * (1 + k[0] * r + k[1] * r * r)

    @compile
    def undistort(points, k):
        def one(p):
            guess = p
            for _ in range(3):
                j = torch.func.jacfwd(distort)(guess, k)
                guess = guess - torch.linalg.solve(j, distort(guess, k) - p)
            return guess

        return torch.vmap(one)(points)

    return undistort(torch.rand(4, 2) * 0.5, torch.tensor([0.03, -0.02]))


@program("pytorch#172364", "vmap inside vmap indexes a tensor by both")
def vmap_indexing(compile):
    @compile
    def f(data, bs, ns):
        return torch.vmap(lambda b: torch.vmap(lambda n: data[b, n])(ns))(bs)

    return f(torch.arange(20).reshape(2, 10), torch.arange(2), torch.arange(10))


@program("pytorch#111733", "vmap with reductions and plain numbers")
def vmap_with_numbers(compile):
    @compile
    def f(x):
        return torch.vmap(lambda r, k: r.mean() * k + r.std() ** 2, in_dims=(0, None))(x, 3.0)

    return f(torch.rand(3, 4))


@program("pytorch#100105", "functional_call under vmap and under grad, with buffers")
def functional_call_in_transforms(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval()
    p = {k: v.detach() for k, v in m.named_parameters()}
    b = {k: v.detach() for k, v in m.named_buffers()}

    def loss(p, b, x):
        return torch.func.functional_call(m, (p, b), (x,)).pow(2).sum()

    x = torch.rand(2, 3)
    return compile(torch.func.grad(loss))(p, b, x), compile(torch.func.vmap(loss, in_dims=(None, None, 0)))(p, b, x[None])


@program("pytorch#115750", "a full backward hook registered after the first call")
def backward_hook_registered_later(compile):
    lin = nn.Linear(3, 3, bias=False)
    f = compile(lambda x: lin(x))
    x = torch.rand(2, 3, requires_grad=True)
    f(x).sum().backward()
    first, x.grad = x.grad, None
    lin.register_full_backward_hook(lambda m, gi, go: [g * 2 for g in gi])
    f(x).sum().backward()
    return first, x, lin.weight


@program("pytorch#117266", "a full backward pre-hook")
def backward_pre_hook(compile):
    lin = nn.Linear(3, 3, bias=False)
    lin.register_full_backward_pre_hook(lambda m, go: tuple(g * 2 for g in go))
    f = compile(lambda x: lin(x) * 3)
    x = torch.rand(2, 3, requires_grad=True)
    f(x).sum().backward()
    return x, lin.weight


@program("pytorch#117758", "forward hooks registered after compiling")
def forward_hook_registered_later(compile):
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    c = compile(m)
    x = torch.rand(2, 3)
    c(x)
    kept = {}
    handles = [layer.register_forward_hook(lambda m, i, o, n=n: kept.__setitem__(n, o.sum())) for n, layer in enumerate(m) if n != 1]
    c(x).sum().backward()
    for h in handles:
        h.remove()
    kept2 = dict(kept)
    kept.clear()
    c(x)
    return kept2, kept, list(m.parameters())


@program("pytorch#116221", "saved tensor hooks around a compiled product")
def saved_tensor_hooks_around(compile):
    f = compile(lambda a, b: a * b)
    a, b = torch.ones(2, requires_grad=True), torch.full((2,), 2.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
        y = f(a, b)
    y.sum().backward()
    return a, b


class TimesTwo(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.clone.default else out


class AddIsMul(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.add.Tensor:
            func = torch.ops.aten.mul.Tensor
        return func(*args, **(kwargs or {}))


@program("pytorch#115653", "a dispatch mode that changes results was ignored")
def dispatch_mode_scales(compile):
    f = compile(lambda x: x.clone() + 1)
    x = torch.ones(2)
    with TimesTwo():
        y = f(x)
    return y, f(x)


@program("pytorch#105929", "a dispatch mode that rewrites operators")
def dispatch_mode_rewrites(compile):
    f = compile(lambda x: x + x)
    x = torch.full((2,), 3.0)
    a = f(x)
    with AddIsMul():
        b = f(x)
    return a, b, f(x)


@program("pytorch#144787", "calls under a mode, again and again, in and out")
def mode_in_and_out(compile):
    f = compile(lambda x: (x + 1).relu())
    out = []
    for i in range(6):
        x = torch.full((2,), float(i))
        if i % 2:
            with AddIsMul():
                out.append(f(x))
        else:
            out.append(f(x))
    return out


@program("pytorch#155331", "a mode whose handler calls compiled code")
def compiled_inside_handler(compile):
    class Compiling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.add.Tensor:
                return compile(lambda a, b: a + b + 10)(*args)
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Compiling():
        return torch.add(x, x)


class Twice(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if getattr(func, "__name__", "") == "view" else out


@program("pytorch#115741", "a function mode around a compiled view")
def function_mode_around_view(compile):
    f = compile(lambda x: x.view(-1))
    x = torch.ones(2, 2)
    with Twice():
        y = f(x)
    return y, f(x)


@program("pytorch#130104", "a function mode entered in the region")
def function_mode_in_region(compile):
    @compile
    def f(x):
        a = x.view(-1) + 1
        with Twice():
            b = a.view(2, 2)
        return b, b.view(-1)

    return f(torch.ones(2, 2))
