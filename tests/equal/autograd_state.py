"""Autograd state made inside a compiled function: leaves, flags, gradient modes, sparse gradients."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


@program("", "requires_grad_() on an input that has no gradient")
def requires_grad_on_input(compile):
    @compile
    def f(x):
        x.requires_grad_()
        return (x * x).sum()

    x = torch.arange(3.0)
    y = f(x)
    y.backward()
    return x, y


@program("", "requires_grad_() on a view that was made of a leaf without gradients, after a break and before one")
def requires_grad_on_view_without_history(compile):
    @compile
    def f(x):
        y = x.detach().requires_grad_()
        x = x.requires_grad_()
        try:
            x.detach_()
        except RuntimeError as e:
            return x, y, str(e)[:40]
        return x, y

    with torch.no_grad():
        x = torch.ones(2, 3, requires_grad=True)
        return f(x.t()), f(x[0]), x


@program("", "the input flagged is used before and after")
def requires_grad_between_uses(compile):
    @compile
    def f(x):
        a = x * 2
        x.requires_grad_()
        b = x * 3
        return a, b, x.requires_grad, x.is_leaf

    x = torch.ones(3)
    a, b, r, leaf = f(x)
    b.sum().backward()
    return a, b, r, leaf, x


@program("", "setting the attribute is the method")
def requires_grad_attribute(compile):
    @compile
    def f(x):
        x.requires_grad = True
        return (x.sin() * 2).sum()

    x = torch.ones(3)
    f(x).backward()
    return x


@program("", "requires_grad_ on several inputs, one already tracked")
def requires_grad_on_several(compile):
    @compile
    def f(xs):
        for x in xs:
            x.requires_grad_()
        return sum((x * x).sum() for x in xs)

    xs = [torch.ones(2), torch.ones(2, requires_grad=True), torch.full((2,), 3.0)]
    f(xs).backward()
    return xs


@program("", "requires_grad_(False) on an input is seen inside and outside")
def requires_grad_off(compile):
    @compile
    def f(x):
        x.requires_grad_(False)
        return x * 2

    x = torch.ones(3, requires_grad=True)
    return f(x), x


@program("", "requires_grad_(False) after a use keeps that use's history")
def requires_grad_off_after_use(compile):
    @compile
    def f(x):
        y = x * 2
        x.requires_grad_(False)
        return y, x * 3

    x = torch.ones(3, requires_grad=True)
    y, z = f(x)
    return y, z, x


@program("", "freezing a module's parameters inside")
def freeze_inside(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))

    @compile
    def f(x):
        m[0].requires_grad_(False)
        return m(x).sum()

    f(torch.ones(2, 3)).backward()
    return [p.grad for p in m.parameters()], [p.requires_grad for p in m.parameters()]


@program("", "unfreezing a module's parameters inside")
def unfreeze_inside(compile):
    m = nn.Linear(3, 2)
    m.requires_grad_(False)

    @compile
    def f(x):
        for p in m.parameters():
            p.requires_grad = True
        return m(x).sum()

    f(torch.ones(2, 3)).backward()
    return list(m.parameters())


@program("", "requires_grad on a non-leaf raises", raises="RuntimeError: you can only change requires_grad flags of leaf")
def requires_grad_off_non_leaf(compile):
    @compile
    def f(x):
        y = x * 2
        y.requires_grad_(False)
        return y

    return f(torch.ones(3, requires_grad=True))


@program("", "requires_grad_ of integers raises, and is caught")
def requires_grad_integers(compile):
    @compile
    def f(x):
        try:
            x.requires_grad_()
        except RuntimeError:
            return x + 1
        return x

    return f(torch.arange(3))


@program("", "a detached leaf inside, then backward() inside")
def detached_leaf_backward(compile):
    @compile
    def f(x):
        y = x.detach().requires_grad_()
        (y * y * 3).sum().backward()
        return y.grad, y

    return f(torch.arange(3.0, requires_grad=True))


@program("", "a detached clone is a leaf of its own that the caller differentiates")
def detached_leaf_returned(compile):
    @compile
    def f(x):
        y = x.detach().clone().requires_grad_(True)
        return y, (y.sin() * x).sum()

    x = torch.arange(3.0, requires_grad=True)
    y, z = f(x)
    z.backward()
    return x, y, z


@program("", "an intermediate leaf differentiated inside with autograd.grad")
def detached_leaf_grad(compile):
    @compile
    def f(x):
        y = x.detach().requires_grad_(True)
        (g,) = torch.autograd.grad((y**3).sum(), y)
        return x * g

    x = torch.arange(1.0, 4.0, requires_grad=True)
    out = f(x)
    out.sum().backward()
    return out, x


@program("", "a factory with requires_grad=True makes a leaf")
def factory_leaf(compile):
    @compile
    def f(x):
        w = torch.ones(2, requires_grad=True)
        return w, (w * x).sum()

    w, y = f(torch.tensor([2.0, 3.0]))
    y.backward()
    return w, y, w.is_leaf


@program("", "factories of every kind with requires_grad=True")
def factory_leaves(compile):
    @compile
    def f(x):
        made = [
            torch.zeros(2, requires_grad=True),
            torch.full((2,), 4.0, requires_grad=True),
            torch.zeros_like(x, requires_grad=True),
            torch.tensor([1.0, 2.0], requires_grad=True),
            torch.arange(2.0, requires_grad=True),
            x.new_ones(2, requires_grad=True),
            torch.eye(2, requires_grad=True),
            torch.linspace(0, 1, 2, requires_grad=True),
        ]
        return made, sum((m * x).sum() for m in made)

    made, y = f(torch.tensor([2.0, 3.0]))
    y.backward()
    return made, y


@program("", "a random leaf")
def factory_random_leaf(compile):
    @compile
    def f(x):
        w = torch.randn(3, requires_grad=True)
        return w, (w * x).sum()

    w, y = f(torch.ones(3))
    y.backward()
    return w


@program("", "nn.Parameter of an expression is a leaf")
def parameter_of_expression(compile):
    @compile
    def f(x):
        p = nn.Parameter(x * 2)
        return p, (p * p).sum()

    p, y = f(torch.ones(3))
    y.backward()
    return p, isinstance(p, nn.Parameter), p.is_leaf


@program("", "nn.Parameter of an input shares its memory and cuts history")
def parameter_of_input(compile):
    @compile
    def f(x):
        p = nn.Parameter(x)
        return p, (p * x).sum()

    x = torch.ones(3, requires_grad=True)
    p, y = f(x)
    y.backward()
    return x, p


@program("", "nn.Parameter without gradients, and one put on a module")
def parameter_on_module(compile):
    m = nn.Linear(2, 2)

    @compile
    def f(x):
        m.extra = nn.Parameter(x + 1, requires_grad=False)
        m.weight = nn.Parameter(x.clone())
        return m(x).sum() + m.extra.sum()

    x = torch.eye(2)
    f(x).backward()
    return m.extra, m.weight, m.bias, [n for n, _ in m.named_parameters()]


@program("", "adversarial example by the sign of the gradient")
def fgsm(compile):
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    @compile
    def attack(x, y):
        adv = x.clone().detach().requires_grad_(True)
        loss = F.cross_entropy(m(adv), y)
        grad = torch.autograd.grad(loss, adv)[0]
        return (adv + 0.1 * grad.sign()).detach().clamp(0, 1)

    return attack(torch.rand(2, 4), torch.tensor([0, 2])), [p.grad for p in m.parameters()]


@program("", "adversarial example with x.grad")
def fgsm_backward(compile):
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    @compile
    def attack(x, y):
        x.requires_grad = True
        loss = F.cross_entropy(m(x), y)
        m.zero_grad()
        loss.backward()
        return x + 0.1 * x.grad.sign()

    x = torch.rand(2, 4)
    return attack(x, torch.tensor([0, 2])), x, [p.grad for p in m.parameters()]


@program("", "projected gradient descent")
def pgd(compile):
    m = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    @compile
    def attack(x, y):
        adv = x.detach() + torch.zeros_like(x)
        for _ in range(3):
            adv.requires_grad_()
            with torch.enable_grad():
                loss = F.cross_entropy(m(adv), y)
            grad = torch.autograd.grad(loss, [adv])[0]
            adv = adv.detach() + 0.05 * torch.sign(grad.detach())
            adv = torch.min(torch.max(adv, x - 0.1), x + 0.1)
            adv = torch.clamp(adv, 0, 1)
        return adv

    return attack(torch.rand(2, 4), torch.tensor([0, 2]))


@program("", "a perturbation learnt inside")
def perturbation(compile):
    m = nn.Linear(4, 3)

    @compile
    def step(x, y):
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(2):
            loss = F.cross_entropy(m(x + delta), y)
            loss.backward()
            delta.data = delta.data + 0.1 * delta.grad.sign()
            delta.grad.zero_()
        return delta.detach(), delta.grad

    return step(torch.rand(2, 4), torch.tensor([0, 2])), [p.grad for p in m.parameters()]


@program("", "enable_grad inside a function called under no_grad")
def enable_grad_under_no_grad(compile):
    @compile
    def f(x):
        with torch.enable_grad():
            return x * x

    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        y = f(x)
    y.sum().backward()
    return y, x


@program("", "enable_grad inside, with work before and after it")
def enable_grad_in_the_middle(compile):
    @compile
    def f(x):
        a = x + 1
        with torch.enable_grad():
            b = x * x + a
        return a, b, b * 2

    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        a, b, c = f(x)
    b.sum().backward()
    return a, b, c, x


@program("", "enable_grad as a decorator of forward, called under no_grad")
def enable_grad_decorator(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

        @torch.enable_grad()
        def forward(self, x):
            return (self.w * x).sum()

    m = M()
    c = compile(m)
    with torch.no_grad():
        y = c(torch.arange(3.0))
    y.backward()
    return y, m.w


@program("", "energy models differentiate inside under no_grad")
def energy_gradient_under_no_grad(compile):
    m = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.Linear(4, 1))

    @compile
    def force(x):
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            e = m(x).sum()
            return -torch.autograd.grad(e, x)[0]

    with torch.no_grad():
        return force(torch.rand(2, 3))


@program("", "sparse gradients of an embedding")
def sparse_embedding(compile):
    m = nn.Embedding(5, 3, sparse=True)

    @compile
    def f(i):
        return m(i).sum()

    f(torch.tensor([1, 2, 2])).backward()
    g = m.weight.grad
    return g.is_sparse, g.to_dense(), g.coalesce().indices()


@program("", "sparse gradients of F.embedding and of EmbeddingBag")
def sparse_embedding_bag(compile):
    m = nn.EmbeddingBag(5, 3, sparse=True, mode="sum")
    w = torch.rand(4, 2, requires_grad=True)

    @compile
    def f(i, o):
        return m(i, o).sum() + F.embedding(i, w, sparse=True).pow(2).sum()

    f(torch.tensor([1, 2, 2, 3]), torch.tensor([0, 2])).backward()
    return m.weight.grad.is_sparse, m.weight.grad.to_dense(), w.grad.is_sparse, w.grad.to_dense()


@program("", "sparse embedding in a model, stepped by SparseAdam")
def sparse_embedding_training(compile):
    m = nn.Embedding(5, 3, sparse=True)
    head = nn.Linear(3, 2)
    c = compile(lambda i: head(m(i)).relu().sum())
    opt = torch.optim.SparseAdam(m.parameters(), lr=0.1)
    for _ in range(2):
        opt.zero_grad()
        c(torch.tensor([[0, 1], [1, 4]])).backward()
        opt.step()
    return m.weight, head.weight


@program("", "no_grad results are leaves that can be flagged")
def leaf_from_no_grad(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x * 2
        y.requires_grad_()
        return y, (y * x).sum()

    x = torch.ones(2, requires_grad=True)
    y, z = f(x)
    z.backward()
    return x, y, z


@program("", "a leaf flagged inside and stored in a list of the caller")
def leaf_stored(compile):
    kept = []

    @compile
    def f(x):
        p = torch.zeros(2).requires_grad_()
        kept.append(p)
        return (p + x).exp().sum()

    f(torch.ones(2)).backward()
    return kept


@program("", "a tensor flagged inside a block that breaks")
def leaf_across_break(compile):
    @compile
    def f(x):
        y = (x * 2).detach().requires_grad_()
        z = y * y
        if z.sum() > 0:
            z = z * 3
        z.sum().backward()
        return y.grad, z

    return f(torch.ones(2))


@program("", ".data of a leaf made inside")
def data_of_leaf(compile):
    @compile
    def f(x):
        w = torch.ones(2, requires_grad=True)
        w.data.add_(x)
        return w, (w * w).sum()

    w, y = f(torch.tensor([1.0, 2.0]))
    y.backward()
    return w, y


@program("", "a view becomes a leaf")
def view_leaf(compile):
    @compile
    def f(x):
        y = x.view(-1)
        y.requires_grad_()
        return (y * 2).sum(), y

    x = torch.ones(2, 2)
    s, y = f(x)
    s.backward()
    return x, y, y._base is None


@program("", "a parameter made at the first call, and modules made inside")
def lazily_made_parameters(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = None

        def forward(self, x):
            if self.p is None:
                self.p = nn.Parameter(torch.zeros(x.shape[-1]))
            inner = nn.Linear(3, 1)
            return x + self.p + inner(x)

    m = M()
    c = compile(m)
    x = torch.rand(2, 3)
    for _ in range(2):
        c(x).sum().backward()
    return m.p, [n for n, _ in m.named_parameters()]


@program("", "weights updated by hand and an average of them kept")
def manual_updates(compile):
    import copy

    m = nn.Linear(2, 2)
    ema = copy.deepcopy(m).requires_grad_(False)

    @compile
    def step(x):
        loss = m(x).pow(2).sum() + ema(x).sum()
        loss.backward()
        with torch.no_grad():
            for p, a in zip(m.parameters(), ema.parameters(), strict=True):
                p.sub_(p.grad, alpha=0.1)
                p.grad = None
                a.mul_(0.9).add_(p, alpha=0.1)
        return loss

    return [step(torch.ones(1, 2)) for _ in range(2)], list(m.parameters()), list(ema.parameters())


@program("", "sparse gradients of gather, and a sparse product")
def sparse_gather(compile):
    @compile
    def f(x):
        a = torch.gather(x, 0, torch.tensor([[0, 1]]), sparse_grad=True)
        b = x.gather(0, torch.tensor([[1, 1]]), sparse_grad=True)
        return (a * b).sum()

    @compile
    def product(x):
        return torch.sparse.mm(torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse(), x).sum()

    x, y = torch.rand(2, 2, requires_grad=True), torch.rand(2, 2, requires_grad=True)
    f(x).backward()
    product(y).backward()
    return x.grad.is_sparse, x.grad.to_dense(), y


@program("", "views of leaves made under no_grad are leaves, whichever backend makes them again")
def views_of_leaves_without_history(compile):
    @compile
    def f(x):
        return x.mT, x[0], x.view(9), x + 1

    @compile
    def inside(x):
        with torch.no_grad():
            y = x.view(9)[2:]
        return y, (x * 2).mT

    x = torch.ones(3, 3, requires_grad=True)
    with torch.no_grad():
        found = f(x)
    again = inside(x)
    seen = [(t.requires_grad, t.is_leaf, t.grad_fn is None, t._base is x) for t in (*found, *again)]
    return seen, found, again


@program("", "views of a result made under no_grad have no history")
def views_of_results_without_history(compile):
    @compile
    def f(x):
        y = x * 2
        with torch.no_grad():
            z, w = y.mT, y[1]
        return y, z, w

    y, z, w = f(torch.ones(3, 3, requires_grad=True))
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None, t._base is y) for t in (y, z, w)], y, z, w


@program("", "a view of a leaf made under no_grad, after a write that autograd has seen")
def stale_view_of_leaf(compile):
    @compile
    def f(x):
        return x.sin(), x * 1.5

    @compile
    def writing(x):
        x.mul_(2)
        return x.sin()

    base = torch.rand(3, 3)
    with torch.no_grad():
        view = base.t()
        base.requires_grad_()
        leaf_view = base.t()
        found = [f(view), f(leaf_view), writing(leaf_view), f(leaf_view)]
    base.detach().add_(1)
    with torch.no_grad():
        writing(base)
    refused = []
    for v in (view, leaf_view):
        try:
            refused.append(f(v))
        except RuntimeError as e:
            refused.append(str(e)[:60])
    return found, refused, view.requires_grad, leaf_view.requires_grad, base


@program("", "a view made under no_grad of a leaf that is written under no_grad, then under autocast")
def stale_view_under_modes(compile):
    @compile
    def f(x):
        y = x * 1.0
        state = torch.get_rng_state()
        x.mul_(2)
        return x.sin() + y, state

    leaf = torch.rand(3, 3).requires_grad_()
    with torch.no_grad():
        first = f(leaf)
        view = leaf.t()
        second = f(view)
        third = torch.autocast("cpu", torch.bfloat16)(f)(view)
    return first, second, third, leaf


@program("", "results computed from each other within enable_grad, a leaf that is made there, under no_grad")
def linked_results_of_inner_mode(compile):
    @compile
    def f(x):
        y = x.sin()
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            z = x.sin()
            y = z.sin()
        return y, z

    @compile
    def left_off(x):
        y = x.sin()
        z = y * 2
        torch.set_grad_enabled(False)
        return y, z, z * 2, y.t()

    @compile
    def left_on(x):
        with torch.enable_grad():
            y = x.sin()
        torch.set_grad_enabled(True)
        return y, y * 2, y.t(), x.t()

    x = torch.rand(3, 3)
    with torch.no_grad():
        first = f(x)
    leaf = x.clone().requires_grad_()
    with torch.enable_grad():
        second = left_off(leaf)
    with torch.no_grad():
        third = left_on(leaf)
    results = [*first, *second, *third]
    return [(t.requires_grad, t.is_leaf) for t in results], results, torch.autograd.grad(first[0].sum(), first[1])


def _history(t):
    try:
        return t.requires_grad, t.is_leaf
    except RuntimeError as e:
        return t.requires_grad, str(e)[:40]


@program("", "views made under no_grad before and after a write to their base are returned")
def views_around_a_write(compile):
    @compile
    def before(x):
        y = x.mT
        x.mul_(2)
        return y, x * 3

    @compile
    def after(x):
        x.mul_(2)
        return x.mT, x[0]

    @compile
    def of_result(x):
        with torch.enable_grad():
            y = x * 2
        z = y.t()
        y.mul_(2)
        return z, y.t()

    x = torch.rand(3, 3).requires_grad_()
    with torch.no_grad():
        found = [*before(x), *after(x), *of_result(x)]
        values = [t.tolist() for t in found]
    return [_history(t) for t in found], values, x._version


@program("", "a leaf that is a view, read and written through other views of it")
def leaf_that_is_a_view(compile):
    @compile
    def f(c):
        v = c.squeeze()
        v.unsqueeze(0).detach().mul_(2)
        return v, c.sin()

    results = []
    for leaf in (torch.arange(6.0).view(2, 3), torch.arange(8.0)[::2], torch.ones(3, 2).t()):
        leaf.requires_grad_()
        v, s = f(leaf)
        results += [v, s, leaf.is_leaf, *torch.autograd.grad([v.sum(), s.sum()], leaf, allow_unused=True)]
    return results


@program("", "what autograd knows of an argument: leaves, results, views and hooks in turn")
def asked_of_arguments(compile):
    asks = {
        "is_leaf": lambda x: (x * 2, x.is_leaf),
        "grad_fn": lambda x: x * 2 if x.grad_fn is None else x * 3,
        "retains_grad": lambda x: (x * 2, x.retains_grad),
        "hooks": lambda x: x * 2 if x._backward_hooks is None else x * 3,
        "output_nr": lambda x: (x * 2, x.output_nr),
        "retained inside": lambda x: (x.requires_grad and x.retain_grad(), x * 2, x.retains_grad)[1:],
    }
    found = {}
    for name, ask in asks.items():
        compiled = compile(ask)
        for order in (1, -1):
            leaf, hooked, retained = (torch.ones(4, requires_grad=True) for _ in range(3))
            hooked.register_hook(lambda g: g * 2)
            result = retained * 1
            result.retain_grad()
            given = [leaf, leaf * 1, leaf[:], hooked, result, torch.ones(4), (leaf * 1).split(2)[1]]
            found[name, order] = [compiled(x) for x in given[::order]]
    return found


@program("", "asking an inference tensor for gradients again, outside of the mode: refused though nothing changes")
def asked_again_outside(compile):
    def again(x):
        with torch.inference_mode():
            y = (x * 2).requires_grad_()
        return y.requires_grad_()

    def flagged(x):
        with torch.inference_mode():
            y = torch.func.jacrev(torch.sin)(x).sum(0).requires_grad_()
        y.requires_grad = True
        return y

    def inside(x):
        with torch.inference_mode():
            y = (x * 2).requires_grad_()
            y.requires_grad_()
        return y.requires_grad_(False)

    found = []
    for f in (again, flagged, inside):
        try:
            result = compile(f)(torch.ones(3))
            found.append((result, result.is_inference(), result.requires_grad))
        except RuntimeError as error:
            found.append(str(error))
    return found
