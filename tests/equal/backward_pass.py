"""The backward pass around compiled functions: higher derivatives, hooks, accumulated gradients, writes to what autograd knows."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


@program("", "requires_grad set through setattr, returned untouched")
def requires_grad_setattr(compile):
    @compile
    def f(x):
        setattr(x, "requires_grad", True)
        return x

    x = torch.ones(3)
    y = f(x)
    return y is x, y


@program("", "create_graph through a compiled function")
def double_backward(compile):
    @compile
    def f(x):
        return (x**3).sum()

    x = torch.arange(1.0, 4.0, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return g, h


@program("", "gradient penalty")
def gradient_penalty(compile):
    m = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    c = compile(m)
    x = torch.rand(4, 3, requires_grad=True)
    out = c(x)
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
    (penalty + out.mean()).backward()
    return g, penalty, x, list(m.parameters())


@program("", "a gradient penalty whose gradients are taken inside")
def gradient_penalty_inside(compile):
    m = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    @compile
    def f(x):
        out = m(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return ((g.norm(2, dim=1) - 1) ** 2).mean() + out.mean()

    x = torch.rand(4, 3, requires_grad=True)
    y = f(x)
    y.backward()
    return y, x, list(m.parameters())


@program("", "third derivatives")
def triple_backward(compile):
    f = compile(lambda x: (x**4).sum())
    x = torch.arange(1.0, 4.0, requires_grad=True)
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    (k,) = torch.autograd.grad(h.sum(), x)
    return g, h, k


@program("", "create_graph with several outputs and inputs, some unused")
def double_backward_several(compile):
    @compile
    def f(x, y, z):
        return x.sin() * y, (y * y).sum(), x.detach() * 2, z

    x = torch.rand(3, requires_grad=True)
    y = torch.rand(3, requires_grad=True)
    z = torch.rand(3, requires_grad=True)
    a, b, c, d = f(x, y, z)
    gs = torch.autograd.grad((a * a).sum() + b, [x, y], create_graph=True)
    (gs[0].sum() + (gs[1] ** 2).sum()).backward()
    return a, b, c, d, gs, x, y, z


@program("", "backward(create_graph=True)")
def backward_create_graph(compile):
    f = compile(lambda x: (x**3).sum())
    x = torch.arange(1.0, 4.0, requires_grad=True)
    f(x).backward(create_graph=True)
    g = x.grad
    x.grad = None
    g.sum().backward()
    return g.detach(), x.grad


@program("", "create_graph through a function with random numbers inside")
def double_backward_dropout(compile):
    @compile
    def f(x):
        return (F.dropout(x, 0.5) ** 3).sum()

    x = torch.arange(1.0, 9.0, requires_grad=True)
    y = f(x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    return y, g, x


@program("", "create_graph through a function that writes to a buffer")
def double_backward_batch_norm(compile):
    m = nn.BatchNorm1d(3).double()
    c = compile(m)
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    y = c(x)
    (g,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
    (g**2).sum().backward()
    return y, g, x, m.running_mean, m.num_batches_tracked


@program("", "create_graph where an input was changed in place since")
def double_backward_changed_input(compile):
    f = compile(lambda x, w: (x * w * w).sum())
    x, w = torch.ones(3), torch.full((3,), 2.0, requires_grad=True)
    y = f(x, w)
    (g,) = torch.autograd.grad(y, w, create_graph=True, retain_graph=True)
    return g, g.requires_grad


@program("", "gradients accumulate over calls")
def accumulation(compile):
    m = nn.Linear(3, 1)
    c = compile(m)
    for _ in range(3):
        c(torch.ones(2, 3)).sum().backward()
    return list(m.parameters())


@program("", "backward() inside accumulates into parameters")
def backward_inside(compile):
    m = nn.Linear(3, 1)

    @compile
    def step(x):
        loss = m(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    out = [step(torch.ones(2, 3)) for _ in range(2)]
    return out, list(m.parameters())


@program("", "a whole training step inside")
def training_step_inside(compile):
    m = nn.Linear(3, 1)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)

    @compile
    def step(x):
        opt.zero_grad()
        loss = m(x).pow(2).mean()
        loss.backward()
        opt.step()
        return loss

    return [step(torch.ones(2, 3)) for _ in range(3)], list(m.parameters())


@program("", "autograd.grad inside of an input")
def grad_inside(compile):
    @compile
    def f(x):
        y = (x.sin() * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g * 2, g.requires_grad

    x = torch.rand(3, requires_grad=True)
    g, r = f(x)
    g.sum().backward()
    return g, r, x


@program("", "allow_unused and a missing gradient")
def grad_inside_unused(compile):
    @compile
    def f(x, w):
        y = (x * 2).sum()
        return torch.autograd.grad(y, [x, w], allow_unused=True)

    return f(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True))


@program("", "autograd.grad of something without history raises")
def grad_inside_without_history(compile):
    @compile
    def f(x):
        try:
            return torch.autograd.grad(x.sum(), x)
        except RuntimeError:
            return x - 1

    return f(torch.ones(2))


@program("", "register_hook on an intermediate")
def hook_on_intermediate(compile):
    @compile
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * 10)
        return (y * y).sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    return x


@program("", "register_hook on an input, and its removal")
def hook_on_input(compile):
    seen = []

    @compile
    def f(x):
        h = x.register_hook(lambda g: seen.append(g.clone()))
        return (x * 3).sum(), h

    x = torch.ones(3, requires_grad=True)
    y, h = f(x)
    y.backward()
    h.remove()
    (x * 2).sum().backward()
    return x, seen


@program("", "hooks that were there before")
def hook_before(compile):
    seen = []
    m = nn.Linear(2, 2)
    m.weight.register_hook(lambda g: seen.append(g.sum()) or g * 2)
    m.bias.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    x = torch.ones(2, 2, requires_grad=True)
    x.register_hook(lambda g: g + 1)
    c = compile(m)
    c(x).sum().backward()
    return m.weight, m.bias, x, sorted(seen, key=torch.Tensor.dim)


@program("", "post-accumulate hook registered inside")
def post_accumulate_inside(compile):
    seen = []

    @compile
    def f(x):
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.sum()))
        return (x * x).sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    return x, seen


@program("", "retain_grad inside and on a result")
def retain_grad(compile):
    kept = []

    @compile
    def f(x):
        y = x * 2
        y.retain_grad()
        kept.append(y)
        return (y * y).sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    return x, kept[0].grad, kept[0].retains_grad


@program("", "retain_grad on the result of a compiled function")
def retain_grad_outside(compile):
    f = compile(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    y.retain_grad()
    (y * y).sum().backward()
    return x, y.grad


@program("", "the grad of an input read and changed inside")
def grad_read_inside(compile):
    @compile
    def f(x):
        if x.grad is None:
            return x * 1
        x.grad.mul_(2)
        return x * x.grad

    x = torch.ones(3, requires_grad=True)
    a = f(x)
    a.sum().backward()
    b = f(x)
    return a, b, x


@program("", "zeroing gradients inside")
def zero_grad_inside(compile):
    m = nn.Linear(2, 1)

    @compile
    def f(x, none):
        m.zero_grad(set_to_none=none)
        return m(x).sum()

    seen = []
    for none in (True, False, True):
        f(torch.ones(1, 2), none).backward()
        seen.append(m.weight.grad.clone())
    return seen, m.weight


@program("", "writing to a leaf that needs a gradient raises", raises="RuntimeError: a leaf Variable that requires grad")
def write_to_leaf(compile):
    @compile
    def f(x):
        x.add_(1)
        return x

    return f(torch.ones(2, requires_grad=True))


@program("", "writing to a view of a leaf raises before what follows: a seed, a write to another input, printed text")
def refused_before_effects(compile):
    def seeded(x, y):
        x.mul_(2)
        torch.manual_seed(0)
        return y + 1

    def written(x, y):
        z = x * 1.0
        x.add_(z)
        y.add_(1)
        return z

    def printed(x, y):
        x.t().mul_(2)
        print("not reached")
        return y

    found = []
    for fn in (seeded, written, printed):
        f = compile(fn)
        for x in (torch.ones(3, 3, requires_grad=True).t(), torch.ones(9, requires_grad=True).view(3, 3)):
            y = torch.zeros(3)
            torch.rand(2)
            try:
                f(x, y)
            except RuntimeError as e:
                found.append(str(e)[:40])
            found += [y, torch.rand(2)]
    return found


@program("", "a later call whose input is a view of a leaf raises before another input is written")
def refused_at_a_later_call(compile):
    @compile
    def f(x, y):
        z = x * 1.0
        x.add_(z)
        y.add_(1)
        return z

    x, y = torch.ones(9, requires_grad=True), torch.zeros(3)
    found = [f((x * 2).view(3, 3), y)]
    try:
        f(x.view(3, 3), y)
    except RuntimeError as e:
        found.append(str(e)[:40])
    return found, x, y


@program("", "writes to a view of a leaf that autograd does not see, and one that it refuses")
def refused_after_an_unseen_write(compile):
    def by_data(x):
        x.data.add_(1)
        x.mul_(2)
        return x

    def by_detach(x):
        x.detach().add_(1)
        x.mul_(2)
        return x

    def without_grad(x):
        with torch.no_grad():
            x.add_(1)
        x.mul_(2)
        return x

    found = []
    for fn in (by_data, by_detach, without_grad):
        f = compile(fn)
        x = torch.ones(9, requires_grad=True)
        for view in ((x * 2).view(3, 3), x.view(3, 3)):
            try:
                found.append(f(view))
            except RuntimeError as e:
                found.append(str(e)[:40])
            found += [view, view._version, x]
    return found


@program("", "writing to a view of a leaf raises", raises="RuntimeError: a view of a leaf Variable")
def write_to_view_of_leaf(compile):
    @compile
    def f(x):
        x[0] = 1
        return x

    return f(torch.ones(2, requires_grad=True))


@program("", "writing to a leaf made inside raises, and is caught")
def write_to_inner_leaf(compile):
    @compile
    def f(x):
        w = torch.ones(2, requires_grad=True)
        try:
            w.add_(x)
        except RuntimeError:
            return w * 2
        return w

    return f(torch.ones(2))


@program("", "writing under no_grad to a leaf")
def write_to_leaf_no_grad(compile):
    @compile
    def f(x):
        with torch.no_grad():
            x.add_(1)
        return (x * x).sum()

    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.backward()
    return x, y, x._version


@program("", "writing a tracked value into an input gives the input history")
def write_gives_history(compile):
    @compile
    def f(x, w):
        x.mul_(w)
        return x.sum()

    x, w = torch.ones(3), torch.rand(3, requires_grad=True)
    y = f(x, w)
    before = (x.requires_grad, x.is_leaf)
    (y + x.sum()).backward()
    return before, x, w


@program("", "detach_ of an intermediate and of an input")
def detach_in_place(compile):
    @compile
    def f(x, y):
        a = x * 2
        b = a.detach_()
        y.detach_()
        return a, b * 3, y * 2

    x = torch.ones(3, requires_grad=True)
    w = torch.ones(3, requires_grad=True)
    y = w * 2
    a, b, c = f(x, y)
    return a, b, c, y, y.is_leaf, x


@program("", "views of inputs returned are views to autograd")
def returned_views(compile):
    @compile
    def f(x):
        return x.view(-1), x[0], x.T, x.detach()

    x = torch.ones(2, 3, requires_grad=True) * 1
    a, b, c, d = f(x)
    a.sum().backward(retain_graph=True)
    return a, b, c, d, a._base is x, b._is_view(), d._is_view()


@program("", "a returned view is written to by the caller")
def returned_view_written(compile):
    @compile
    def f(x):
        return x[0], x * 2

    w = torch.ones(2, 3, requires_grad=True)
    x = w * 1
    a, b = f(x)
    a.mul_(3)
    (x.sum() + b.sum()).backward()
    return x, a, w


@program("", "grad_fn of a result and of an intermediate")
def grad_fn(compile):
    @compile
    def f(x):
        y = x * 2
        return y, y.grad_fn is None, x.grad_fn is None, y.detach().grad_fn is None, y.is_leaf

    return f(torch.ones(2, requires_grad=True)), f(torch.ones(2))


@program("", "x.grad set inside")
def grad_set(compile):
    @compile
    def f(x):
        x.grad = torch.ones_like(x) * 5
        return x * 2

    x = torch.ones(3, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x


@program("", "saved_tensors_hooks around a compiled call")
def saved_tensors_hooks(compile):
    count = []
    f = compile(lambda x: (x.sin() * x).sum())
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (count.append(1), t * 1)[1], lambda t: t):
        y = f(x)
    y.backward()
    return x, bool(count)


@program("", "is_leaf, requires_grad and grad asked of everything inside")
def flags_inside(compile):
    @compile
    def f(x, w):
        a = x * w
        with torch.no_grad():
            b = a + 1
        c = w.detach()
        return [(t.requires_grad, t.is_leaf, t.grad is None) for t in (x, w, a, b, c)]

    return f(torch.ones(2), torch.ones(2, requires_grad=True))


@program("", "backward(inputs=...) and retain_graph inside")
def backward_inputs(compile):
    @compile
    def f(x, w):
        y = (x * w).sum()
        y.backward(inputs=[w], retain_graph=True)
        y.backward()
        return y

    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    return f(x, w), x, w


@program("", "a second backward without retain_graph raises")
def second_backward_raises(compile):
    f = compile(lambda x: (x * x).sin().sum())
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.backward()
    try:
        y.backward()
    except RuntimeError as e:
        return type(e), x
    return x


@program("", "retain_graph lets backward run twice")
def second_backward(compile):
    f = compile(lambda x: (x * x).sin().sum())
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.backward(retain_graph=True)
    y.backward()
    return x


@program("", "an input changed between forward and backward raises")
def changed_before_backward(compile):
    f = compile(lambda x, w: (x * w).sum())
    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    y = f(x, w)
    x.add_(1)
    try:
        y.backward()
    except RuntimeError as e:
        return type(e)
    return w


@program("", "inner-loop updates differentiated through (meta-learning)")
def meta_learning(compile):
    loss = compile(lambda w, x: (w * x).tanh().sum())
    w, x = torch.ones(2, requires_grad=True), torch.rand(2)
    fast = w
    for _ in range(2):
        (g,) = torch.autograd.grad(loss(fast, x), fast, create_graph=True)
        fast = fast - 0.1 * g
    loss(fast, x).backward()
    return fast, w


@program("", "second derivatives of a recurrent network, a checkpoint and a block under autocast")
def double_backward_of_regions(compile):
    gru = nn.GRU(3, 4)
    x = torch.rand(2, 1, 3, requires_grad=True)
    found = []
    for fn in (
        lambda x: gru(x)[0].sum(),
        lambda x: torch.utils.checkpoint.checkpoint(lambda a: a.sin().exp(), x, use_reentrant=False).sum(),
        _product_in_bfloat16,
    ):
        (g,) = torch.autograd.grad(compile(fn)(x), x, create_graph=True)
        found += [g, torch.autograd.grad(g.pow(2).sum(), x)[0]]
    return found


def _product_in_bfloat16(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.mT
    return y.float().sum()


@program("", "gradcheck and gradgradcheck")
def gradient_checks(compile):
    f = compile(lambda x, w: (x**3 * w.sin()).sum())
    args = (torch.rand(3, dtype=torch.float64, requires_grad=True), torch.rand(3, dtype=torch.float64, requires_grad=True))
    return torch.autograd.gradcheck(f, args), torch.autograd.gradgradcheck(f, args)


@program("", "hooks on a result and on its node")
def hooks_on_result(compile):
    f = compile(lambda x: x * x)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    called = []
    y.grad_fn.register_hook(lambda gi, go: called.append(len(go)))
    y.grad_fn.register_prehook(lambda go: tuple(g * 5 for g in go))
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    return called, x


@program("", "register_multi_grad_hook and gradient edges inside")
def multi_grad_hook(compile):
    seen = []

    @compile
    def f(x, w):
        torch.autograd.graph.register_multi_grad_hook((x, w), lambda gs: seen.append(len(gs)))
        torch.autograd.graph.get_gradient_edge(x * 2)
        return (x * w).sum()

    x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    f(x, w).backward()
    return seen, x, w


@program("", "an optimizer that calls its closure")
def closure_optimizer(compile):
    m = nn.Linear(2, 1)
    f = compile(m)
    opt = torch.optim.LBFGS(m.parameters(), max_iter=3)
    x = torch.rand(4, 2)

    def closure():
        opt.zero_grad()
        loss = (f(x) - 1).pow(2).mean()
        loss.backward()
        return loss

    return opt.step(closure), list(m.parameters())


@program("", "in-place on an intermediate, under no_grad and on what backward needs")
def intermediate_written(compile):
    @compile
    def f(x):
        y = x * 2
        with torch.no_grad():
            y.add_(1)
        return (y * y).sum()

    @compile
    def bad(x):
        y = x.exp()
        y.add_(1)
        return y.sum()

    x = torch.ones(2, requires_grad=True)
    f(x).backward()
    try:
        bad(x).backward()
    except RuntimeError as e:
        return x, type(e)
    return x
