"""Programs around the autograd graph: hooks, custom Functions, double backward, checkpoint, anomaly mode, saved tensors."""

from __future__ import annotations

import functools

import torch
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


@program("", "a hook on an input made outside scales its gradient, and one is removed between calls")
def hook_outside(compile):
    @compile
    def f(x):
        return (x.sin() * x).sum()

    x = torch.arange(3.0, requires_grad=True)
    calls = []
    handle = x.register_hook(lambda g: calls.append(g.clone()) or g * 2)
    f(x).backward() if torch.is_grad_enabled() else None
    handle.remove()
    f(x).backward() if torch.is_grad_enabled() else None
    return x.grad, calls


@program("", "hooks inside a function: on an intermediate, with a closure, in order")
def hooks_inside(compile):
    order = []

    @compile
    def f(x, scale):
        y = x * 3
        if y.requires_grad:
            y.register_hook(lambda g: order.append("first"))
            y.register_hook(lambda g: g * scale)
            y.register_hook(lambda g: order.append(float(g.sum())))
        z = y.cos()
        return z.sum()

    found = []
    for scale in (2.0, 3.0):
        x = torch.arange(3.0, requires_grad=True)
        out = f(x, scale)
        if out.requires_grad:
            out.backward()
        found.append(x.grad)
    return found, order


@program("", "accumulation hooks of parameters clip and step as in fused optimizers")
def hooks_after_accumulation(compile):
    model = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(model.weight, 0.5)
    torch.nn.init.zeros_(model.bias)
    steps = []

    def step(p):
        steps.append(tuple(p.shape))
        with torch.no_grad():
            p.sub_(p.grad.clamp(-0.1, 0.1))
        p.grad = None

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    f = compile(lambda x: model(x).pow(2).sum())
    losses = []
    for _ in range(3):
        loss = f(torch.ones(2, 3))
        if loss.requires_grad:
            loss.backward()
        losses.append(loss.detach())
    return losses, list(model.parameters()), sorted(steps)


@program("", "full backward hooks and pre-hooks of a module see and change gradients")
def module_hooks(compile):
    seen = []
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    for p in model.parameters():
        torch.nn.init.constant_(p, 0.3)
    model[0].register_full_backward_hook(lambda m, gi, go: seen.append(("after", go[0].clone())) or (gi[0] * 10,))
    model[1].register_full_backward_pre_hook(lambda m, go: seen.append(("before", go[0].clone())) or (go[0] * 2,))
    f = compile(model)
    x = torch.ones(1, 2, requires_grad=True)
    y = f(x)
    if y.requires_grad:
        y.sum().backward()
    return y, x.grad, [p.grad for p in model.parameters()], seen


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta, log):
        ctx.save_for_backward(x)
        ctx.beta, ctx.log = beta, log
        ctx.set_materialize_grads(False)
        log.append("forward")
        count = (x > 0).sum()
        ctx.mark_non_differentiable(count)
        return x * torch.sigmoid(beta * x), count

    @staticmethod
    def backward(ctx, grad, grad_count):
        (x,) = ctx.saved_tensors
        ctx.log.append(("backward", grad_count is None, ctx.needs_input_grad))
        s = torch.sigmoid(ctx.beta * x)
        return grad * (s + ctx.beta * x * s * (1 - s)), None, None


@program("", "a custom Function with a non-differentiable result, a list as an argument, and a None gradient")
def custom_function(compile):
    log = []

    @compile
    def f(x, beta):
        y, count = Swish.apply(x, beta, log)
        return y * 2, count

    x = torch.linspace(-1, 1, 5, requires_grad=True)
    y, count = f(x, 1.5)
    if y.requires_grad:
        y.sum().backward()
    return y, count, count.requires_grad, x.grad, log


class Clamped(torch.autograd.Function):
    @staticmethod
    def forward(x, low):
        return x.clamp(min=low), x < low

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.low = inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        (below,) = ctx.saved_tensors
        return grad.masked_fill(below, 0.25), None


@program("", "setup_context, and the second derivative through it")
def setup_context(compile):
    @compile
    def f(x):
        y, below = Clamped.apply(x * x, 1.0)
        return (y * y).sum(), below

    x = torch.tensor([0.5, 2.0, -3.0], requires_grad=True)
    loss, below = f(x)
    if not loss.requires_grad:
        return loss, below
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    return loss, below, first


@program("", "a gradient penalty: grad with create_graph inside the function")
def gradient_penalty(compile):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softplus(), torch.nn.Linear(3, 1))
    for i, p in enumerate(net.parameters()):
        torch.nn.init.constant_(p, 0.1 * (i + 1))

    @compile
    def f(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            (g,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
            return ((g.float().norm(dim=1) - 1) ** 2).mean()

    loss = f(torch.ones(4, 2))
    loss.backward()
    return loss, [p.grad for p in net.parameters()]


@program("", "checkpointed blocks with keyword arguments, a dict and a nested tuple")
def checkpointed(compile):
    weight = torch.full((3, 3), 0.1, requires_grad=True)

    def block(state, scale=1.0):
        h = torch.tanh(state["h"] @ weight) * scale
        return {"h": h, "extra": (h.sum(), None)}

    @compile
    def f(x):
        state = {"h": x}
        for i in range(3):
            state = checkpoint(block, state, scale=1.0 + i, use_reentrant=False)
        return state["h"], state["extra"][0]

    x = torch.ones(2, 3, requires_grad=True)
    h, extra = f(x)
    if h.requires_grad:
        (h.sum() + extra).backward()
    return h, extra, x.grad, weight.grad


@program("", "anomaly mode finds the NaN of a square root, and names nothing else")
def anomaly(compile):
    @compile
    def f(x):
        return (torch.sqrt(x) * 0).sum()

    x = torch.zeros(2, requires_grad=True)
    found = []
    with torch.autograd.set_detect_anomaly(True):
        try:
            out = f(x)
            if out.requires_grad:
                out.backward()
            found.append(x.grad)
        except RuntimeError as e:
            found.append("nan" in str(e))
    found.append(torch.is_anomaly_enabled())
    return found


@program("", "saved tensors are packed to another type around the call")
def packed(compile):
    @compile
    def f(x):
        return (x.exp() * x.sin()).sum()

    x = torch.arange(3.0, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        out = f(x)
    if out.requires_grad:
        out.backward()
    return out, x.grad


@program("", "retain_grad of intermediates inside and of a result outside")
def retained(compile):
    kept = {}

    @compile
    def f(x):
        y = x * 2
        if y.requires_grad:
            y.retain_grad()
        kept["y"] = y
        return y * y

    x = torch.ones(3, requires_grad=True)
    z = f(x)
    if z.requires_grad:
        z.retain_grad()
        z.sum().backward()
        return z.grad, kept["y"].grad, x.grad, kept["y"].is_leaf
    return z


@program("", "backward inside the function with retain_graph, then a second one that frees it, then an error")
def backward_inside(compile):
    @compile
    def f(w, x):
        with torch.enable_grad():
            loss = (w * x).pow(2).sum()
        loss.backward(retain_graph=True)
        first = w.grad.clone()
        loss.backward()
        second = w.grad
        w.grad = None
        return loss.detach(), first, second, w.grad

    w = torch.ones(2, requires_grad=True)
    return f(w, torch.arange(2.0)), w.grad


@program("", "gradients to several inputs with allow_unused, materialised zeros and a hook between")
def partial_gradients(compile):
    @compile
    def f(a, b, c):
        with torch.enable_grad():
            y = (a * b).sum()
            found = torch.autograd.grad(y, [a, b, c], allow_unused=True, materialize_grads=True)
            none = torch.autograd.grad((a * 2).sum(), [c], allow_unused=True)
        return found, none

    a, b, c = (torch.full((2,), float(i), requires_grad=True) for i in range(3))
    return f(a, b, c)


@program("", "a hook of one result is not called by a pass from another one")
def hooks_of_other_results(compile):
    def scaled(x, w):
        return (x.exp()).sum(), (x * w).sum(), (w**2).sum()

    def of_another(x, w):
        y = x * w
        return y, y.sin(), y.sum() * 2

    def views(x, w):
        y = x * w
        return y[0], y[1], w.t()

    found = {}
    for fn in (scaled, of_another, views):
        for order in ((0,), (1,), (2,), (0, 1), (2, 1, 0)):
            seen = []
            x, w = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_(), torch.ones(3, 3, requires_grad=True)
            results = compile(fn)(x, w)
            for i, result in enumerate(results):
                handle = result.register_hook(lambda g, i=i, seen=seen: seen.append((i, g.sum())) or g * 2)
                if i == 0:
                    handle.remove()
                    result.register_hook(lambda g, seen=seen: seen.append(g.shape))
            torch.autograd.graph.register_multi_grad_hook(results, lambda gs, seen=seen: seen.append([g is None for g in gs]))
            for i in order:
                results[i].sum().backward(retain_graph=True)
            found[fn.__name__, order] = seen, x.grad, w.grad
    return found


@program("", "a hook of an argument, or of what it was computed from, is not called by a pass from what was not computed from it")
def hooks_of_other_arguments(compile):
    def apart(x, w):
        return x.exp(), w * 2

    def mixed(x, w):
        return x.exp(), x * w

    def written(x, w):
        w.add_(1)
        return x.exp(), w * w

    found = {}
    for fn in (apart, mixed, written):
        for late in (False, True):
            for order in ((0,), (1,), (0, 1), (1, 0, 0)):
                seen = []
                p, q = torch.linspace(-1, 1, 9).requires_grad_(), torch.ones(9, requires_grad=True)
                x, w = p * 1, q.exp() * 3
                for name, t in {"p": p, "q": q, "x": x, "w": w}.items() if not late else ():
                    t.register_hook(lambda g, name=name, seen=seen: seen.append((name, g.sum())) or g * 2)
                results = compile(fn)(x, w)
                for name, t in {"p": p, "q": q}.items() if late else ():
                    t.register_hook(lambda g, name=name, seen=seen: seen.append((name, g.sum())) or g * 2)
                for i in order:
                    results[i].sum().backward(retain_graph=True)
                found[fn.__name__, late, order] = seen, p.grad, q.grad
    return found


@program("", "a view that has a hook is written to in a later graph: the gradient passes by the hook")
def written_views_with_hooks(compile):
    @compile
    def inside(x, kind):
        y = x * 1.0
        z = y.view(4)
        z.register_hook(lambda g: g * 2)
        z.add_(1) if kind == "constant" else z.add_(z) if kind == "itself" else y.mul_(3)
        return y, z, x.sin(), y.view(4) * z

    @compile
    def outside(y, z, x, kind):
        before = z * 2
        z.add_(1) if kind == "constant" else z.add_(z) if kind == "itself" else y.mul_(3)
        return y * 1, z * 1, x.sin(), before

    found = {}
    for kind in ("constant", "itself", "the base"):
        for hooked in (True, False):
            for i in range(4):
                x = torch.linspace(-1, 1, 4).view(2, 2).requires_grad_()
                results = inside(x, kind)
                results[i].sum().backward()
                x.grad, first = None, x.grad
                y = x * 1.0
                z = y.view(4)
                if hooked:
                    z.register_hook(lambda g: g * 2)
                results = outside(y, z, x, kind)
                results[i].sum().backward()
                found[kind, hooked, i] = first, x.grad
    return found


@program("", "a checkpoint that has nothing to run again keeps no argument: it may be written to")
def checkpoint_without_saved(compile):
    def scaled(s):
        return s.clone().mul_(2)

    def kept(s):
        return s.sin() * 2

    found = []
    for body in (scaled, kept):
        for reentrant in (False, True):

            def f(x, body=body, reentrant=reentrant):
                y = x * 1.0
                return y, checkpoint(body, y, use_reentrant=reentrant)

            f.__code__ = f.__code__.replace(co_name=f"of_{body.__name__}_{reentrant}")
            x = torch.linspace(-1, 1, 4).requires_grad_()
            y, z = compile(f)(x)
            y.detach().mul_(2)
            try:
                z.sum().backward()
                found.append(x.grad)
            except RuntimeError as error:
                found.append(str(error)[:60])
    return found


@program("", "a checkpoint in eager ends its second run of a compiled function at the last value that is saved")
def checkpoint_around_compiled(compile):
    @compile
    def f(x):
        return x.sin().exp()

    x = torch.arange(4.0, requires_grad=True)
    checkpoint(f, x, use_reentrant=False).sum().backward()
    return x.grad


@program("", "such a checkpoint of a module that counts and draws, and of one whose end is not compiled")
def checkpoint_around_compiled_module(compile):
    m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(), torch.nn.Linear(4, 4))
    c = compile(m)
    x = torch.randn(3, 4, requires_grad=True)
    y = checkpoint(c, x, use_reentrant=False)
    y = checkpoint(lambda t: c(t).cos(), y, use_reentrant=False, early_stop=False)
    y.sum().backward()
    return y, x.grad, m.state_dict(), [p.grad for p in m.parameters()]


@program("", "a hook of saved tensors that counts raises: it is asked once, and its error is that of the call")
def saving_hook_raises(compile):
    class Full(Exception):
        pass

    class Budget:
        def __init__(self):
            self.asked = 0

        def __call__(self, name, t):
            self.asked += 1
            if self.asked == 2:
                raise Full(name)
            return t

    @compile
    def f(x):
        return x.sin()

    budget, found = Budget(), []
    x = torch.arange(4.0, requires_grad=True)
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(functools.partial(budget, "name"), lambda t: t):
            try:
                found.append(f(x))
            except Full as e:
                found.append(str(e))
    return found, budget.asked


@program("", "a hook of saved tensors raises in a block of the function: the block ends, and its hooks with it")
def saving_hook_raises_in_its_block(compile):
    class Full(Exception):
        pass

    asked = []

    def pack(t):
        asked.append(t.shape)
        raise Full("now")

    @compile
    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x.sin()
        return y + 1

    x = torch.arange(4.0, requires_grad=True)
    try:
        f(x)
    except Full as e:
        asked.append(str(e))
    (x * x).sum().backward()
    return asked, x.grad


@program("", "a hook of saved tensors raises, and the function catches it")
def saving_hook_raises_and_is_caught(compile):
    class Full(Exception):
        pass

    asked = []

    def pack(t):
        asked.append(t.shape)
        if len(asked) == 2:
            raise Full("now")
        return t

    @compile
    def f(x):
        try:
            return x.sin()
        except Full as e:
            return x * 2, str(e)

    x = torch.arange(4.0, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        found = [f(x), f(x), f(x)]
    return found, len(asked), (x * x).sum()


@program("", "what is computed from a view made under no_grad needs a gradient, and no pass from it gets anywhere")
def nowhere(compile):
    @compile
    def f(x, w):
        with torch.no_grad():
            z = x[1:]
        return (z * z).sum(), z, w.exp() if w is not None else None

    found = []
    for w in (None, torch.ones(2, requires_grad=True)):
        x = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
        y = x * 2
        for t in (x, y):
            calls = []
            t.register_hook(lambda g, calls=calls: calls.append(g is None))
            total, z, other = f(t, w)
            t.register_hook(lambda g, calls=calls: calls.append(g * 2))
            found += [total, z, total.requires_grad, z.requires_grad, total.grad_fn is None]
            if total.requires_grad:
                total.backward(retain_graph=True)
                found += [torch.autograd.grad(total, [t], allow_unused=True)[0], x.grad]
            if other is not None:
                other.sum().backward()
            found += [len(calls), x.grad, None if w is None else w.grad]
    return found
