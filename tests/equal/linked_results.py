"""Results of one graph that are computed from other results of it: gradients between them, seen by hooks, retain_grad and autograd.grad."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


def _x():
    return torch.linspace(-1.0, 1.0, 6).requires_grad_()


@program("", "a hook on a result that another one was computed from")
def hook(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, y * 2

    x, seen = _x(), []
    y, z = f(x)
    y.register_hook(lambda g: seen.append(g.clone()))
    (z.sum() + y.exp().sum()).backward()
    return seen, x.grad, y, z


@program("", "a hook that changes the gradient, on a result that is dropped before the backward")
def hook_changes(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, y * x

    x = _x()
    y, z = f(x)
    y.register_hook(lambda g: g * 3)
    del y
    z.sum().backward()
    return x.grad, z


@program("", "a hook that is removed again, and one that zeroes")
def hook_removed(compile):
    @compile
    def f(x):
        y = x.exp()
        return y, (y * x).sum()

    x = _x()
    y, z = f(x)
    y.register_hook(torch.zeros_like).remove()
    z.backward()
    first, x.grad = x.grad, None
    y, z = f(x)
    y.register_hook(torch.zeros_like)
    z.backward()
    return first, x.grad


@program("", "retain_grad on a result that another one was computed from")
def retained(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, y * 2

    x = _x()
    y, z = f(x)
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    return y.grad, z.grad, x.grad


@program("", "the gradient with respect to a result")
def grad_of(compile):
    @compile
    def f(x, w):
        y = x.sin()
        return y, (y * w).sum()

    x, w = _x(), _x()
    y, z = f(x, w)
    first = torch.autograd.grad(z, y, retain_graph=True)
    second = torch.autograd.grad(z, [x, y, w], retain_graph=True)
    z.backward()
    return first, second, x.grad, w.grad


@program("", "the gradient with respect to an edge, and accumulated into a result")
def grad_of_edge(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, (y * y).sum()

    x = _x()
    y, z = f(x)
    edge = torch.autograd.graph.get_gradient_edge(y)
    first = torch.autograd.grad(z, edge, retain_graph=True)
    y.retain_grad()
    torch.autograd.backward(z, inputs=[y])
    return first, y.grad, x.grad


@program("", "a chain of results, each seen")
def chain(compile):
    lin = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    @compile
    def f(x):
        states = []
        for m in lin:
            x = m(x).tanh()
            states.append(x)
        return states, x.pow(2).mean()

    x = torch.linspace(-1.0, 1.0, 8).view(2, 4).requires_grad_()
    states, loss = f(x)
    for s in states:
        s.retain_grad()
    (loss + states[1].sum()).backward()
    return [s.grad for s in states], x.grad, [p.grad for p in lin.parameters()]


@program("", "one result of a chain is hooked, another one asked for")
def chain_middle(compile):
    @compile
    def f(x):
        a = x.sin()
        b = a * x
        c = b.exp() + a
        return a, b, c, c.sum() * b.sum()

    x, seen = _x(), []
    a, b, c, d = f(x)
    b.register_hook(lambda g: seen.append(g.clone()) or g * 0.5)
    one = torch.autograd.grad(d, [c, a], retain_graph=True)
    d.backward()
    return one, seen, x.grad


@program("", "loss and logits, gradients of activations")
def loss_and_logits(compile):
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    @compile
    def f(x, t):
        h = m[1](m[0](x))
        logits = m[2](h)
        return {"loss": F.cross_entropy(logits, t), "logits": logits, "hidden": h, "best": logits.argmax(-1)}

    x = torch.linspace(-1.0, 1.0, 8).view(2, 4)
    out = f(x, torch.tensor([0, 2]))
    out["hidden"].retain_grad()
    grad = torch.autograd.grad(out["loss"], out["logits"], retain_graph=True)
    out["loss"].backward()
    return grad, out["hidden"].grad, [p.grad for p in m.parameters()]


@program("", "results that are views, of results and of inputs")
def views(compile):
    @compile
    def f(x):
        y = x.sin().view(2, 3)
        v = x.view(3, 2)
        return y, v, y * 2 + v.t(), v

    x, seen = _x(), []
    y, v, z, again = f(x)
    y.register_hook(lambda g: seen.append(g.clone()))
    v.register_hook(lambda g: seen.append(g.clone()))
    one = torch.autograd.grad(z.sum(), [y, v], retain_graph=True)
    z.sum().backward()
    return one, seen, x.grad, again is v


@program("", "a result that does not lead to the other one")
def unused(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, x * 2, y.detach() * x

    x = _x()
    y, z, w = f(x)
    found = []
    for end in (z, w):
        try:
            torch.autograd.grad(end.sum(), y, retain_graph=True)
        except RuntimeError as error:
            found.append(str(error).split(".")[0])
        found.append(torch.autograd.grad(end.sum(), y, allow_unused=True, retain_graph=True))
    return found


@program("", "second derivatives between results")
def second(compile):
    @compile
    def f(x):
        y = x**3
        return y, (y * y * x).sum()

    x = _x()
    y, z = f(x)
    (g,) = torch.autograd.grad(z, y, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x, retain_graph=True)
    (k,) = torch.autograd.grad(z, x, create_graph=True)
    (m,) = torch.autograd.grad(k.sum(), x)
    return g, h, k, m


@program("", "second derivatives with a hook on the way")
def second_hook(compile):
    @compile
    def f(x):
        y = x**3
        return y, (y * y * x).sum()

    x, seen = _x(), []
    y, z = f(x)
    y.register_hook(lambda g: seen.append(g.detach().clone()))
    (k,) = torch.autograd.grad(z, x, create_graph=True)
    (m,) = torch.autograd.grad(k.sum(), x)
    return seen[0], k, m


@program("", "results across a break, with a hook set in between")
def across_break(compile):
    seen = []

    @compile
    def f(x):
        y = x.sin()
        z = y * x
        y.register_hook(lambda g: seen.append(g.clone()))
        print("between")
        return (y + z).exp()

    x = _x()
    f(x).sum().backward()
    return seen, x.grad


@program("", "a result changed in place afterwards, hooks before and after")
def changed_afterwards(compile):
    @compile
    def f(x):
        y = x * 3
        return y, y * 2

    x, seen = _x(), []
    y, z = f(x)
    y.register_hook(lambda g: seen.append(("before", g.clone())))
    y.mul_(2)
    y.register_hook(lambda g: seen.append(("after", g.clone())))
    (y.sum() + z.sum()).backward()
    return seen, x.grad, y, z._version, y._version


@program("", "dropout between two results draws once")
def random_between(compile):
    @compile
    def f(x):
        y = x * 2
        return y, F.dropout(y, 0.5)

    x = _x()
    torch.manual_seed(3)
    y, z = f(x)
    y.retain_grad()
    z.sum().backward()
    return y.grad, x.grad, z, torch.rand(2)


@program("", "results keep what eager's are: no views, no leaves, versions, names of gradients")
def facts(compile):
    @compile
    def f(x):
        y = x.sin()
        return y, y * 2

    y, z = f(_x())
    z.add_(1)
    y.mul_(2)
    z.sum().backward()
    return z._is_view(), z.is_leaf, z._base is None, z._version, y._version, z.requires_grad


@program("", "results of a view of an argument that an operator without a gradient has written to: its node is made when it is asked for")
def of_a_written_view(compile):
    @compile
    def f(x):
        view = x.unsqueeze(1)
        chosen = torch.index_select(view, 0, torch.arange(1))
        x.t().logical_not_()
        return chosen, view

    x = torch.ones(6)[:3].view(1, 3).requires_grad_()
    chosen, view = f(x)
    (first,) = torch.autograd.grad((chosen * 2).sum(), x, retain_graph=True)
    return chosen.detach(), view.detach(), first, torch.autograd.grad((view * 2).sum(), x, allow_unused=True), x.detach()


@program("", "a later pass through what an earlier one has freed, where somebody looks at the gradient in between: the error is autograd's")
def second_passes_that_are_watched(compile):
    def squares(x):
        y = x * 1.0
        return y, (y - x[0:1]) ** 2

    def sines(x):
        y = x.exp()
        return y, y.sin() * 2

    def looks(y):
        y.retain_grad()

    found = {}
    for fn in (squares, sines):
        for look in (looks, lambda y: y.register_hook(lambda g: None)):
            for order in ((0, 1), (1, 0), (1, 1), (0, 1, 1)):
                x = torch.linspace(0.1, 1, 6).view(2, 3).requires_grad_()
                results = compile(fn)(x)
                look(results[0])
                for which in order:
                    try:
                        results[which].sum().backward()
                    except RuntimeError as error:
                        found[fn.__name__, look.__name__, order, which] = str(error)[:60]
                    else:
                        found[fn.__name__, look.__name__, order, which] = x.grad.clone()
    return found


def _before(part):
    def f(x):
        v = part(x)
        y = v.sum()
        x.detach().add_(1)
        return y, v

    return f


def _part_before_and_after(x):
    w = x * 2
    v = w[0]
    y = v.sum()
    w.add_(1)
    return y, v, v.sum() * 2, w


def _other_part(x):
    w = x * 2
    u, v = w[0], w[1]
    y = u.sum() + v.sum()
    w.detach().mul_(2)
    return y, v, v.sum() * 2, u


def _below_a_part(x):
    w = x * 2
    v = w[0]
    y = v * 3
    v.detach().add_(1)
    return y.sum(), y, v, w


@program("", "a view that a result was computed from has another history once its memory was written: no gradient comes to it")
def views_whose_history_is_made_anew(compile):
    found = []
    part, of_several = _before(lambda x: x[0]), _before(lambda x: x.unbind()[0])
    for f in (part, _part_before_and_after, _other_part, of_several, _below_a_part):
        x = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
        results = compile(fullgraph=True)(f)(x * 1.5)
        for t in results:
            for of in results:
                try:
                    found.append(torch.autograd.grad(t.sum(), of, allow_unused=True, retain_graph=True))
                except RuntimeError as error:
                    found.append(str(error)[:50])
        seen = []
        try:
            found.append(results[1].grad_fn is None)  # before the hook: torch crashes where a hook comes with the first look
            results[1].register_hook(lambda g, seen=seen: seen.append(g.clone()))
        except RuntimeError as error:
            found.append(str(error)[:50])
        results[0].sum().backward()
        found.append((x.grad, seen))
    return found


@program("", "results computed from an argument after it was written to, at whose new gradient somebody looks")
def computed_from_a_written_argument(compile):
    bodies = [
        lambda y, x: (y.mul_(2), y * 3)[1:],
        lambda y, x: (y * 5, y.mul_(2), y * 3, y)[0::2],
        lambda y, x: (y.sin_(), y * 5, y.mul_(2), y * 3)[1::2],
        lambda y, x: (y[0].mul_(2), y * 3)[1:],
        lambda y, x: (y.copy_(x * 2), y * y)[1:],
        lambda y, x: (y.mul_(2), y[1:] * 3, y[1:])[1:],
        lambda y, x: (y.mul_(2), y.exp(), y.detach() * 2)[1:],
        lambda y, x: (y.mul_(2), (z := y * 3), z * y)[1:],
        lambda y, x: (y.mul_(x[:1]), F.dropout(y, 0.5) * x)[1:],
    ]
    found = []
    for body in bodies:

        @compile(fullgraph=True)
        def f(y, x):
            return tuple(body(y, x))

        for has_history in (True, False):
            for look in ("", "hook", "retain", "grad", "hook before", "twice"):
                torch.manual_seed(0)
                x = torch.linspace(1, 2, 4).view(2, 2).requires_grad_()
                y = x * 1.5 if has_history else torch.ones(2, 2)
                if look == "hook before" and has_history:
                    y.register_hook(lambda g: found.append(g.clone()))
                results = f(y, x)
                if not y.requires_grad:
                    continue
                if look in ("hook", "twice"):
                    y.register_hook(lambda g: (found.append(g.clone()), g * 2)[1])
                if look in ("retain", "twice"):
                    y.retain_grad()
                loss = sum(r.sum() for r in results if r.requires_grad)
                if look == "grad":
                    found.append(torch.autograd.grad(loss, y, retain_graph=True))
                loss.backward(retain_graph=look == "twice")
                if look == "twice":
                    (y.sum() * 2).backward()
                found.append((x.grad, y.grad if y.retains_grad else None, y.detach(), [r.detach() for r in results]))
    return found


@program("", "what operators warn of is said once, by the call, also where a pass needs the graph to run again")
def warned_once(compile):
    @compile(fullgraph=True)
    def f(x):
        y = x * 1.0
        return y, F.softmax(y)  # without a dim

    x = torch.linspace(-1.0, 1.0, 6).view(2, 3).requires_grad_()
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        y, z = f(x)
        y.retain_grad()
        count = len(log)
        warnings.simplefilter("error")
        (z * z).sum().backward()
    return count, len(log), x.grad, y.grad


@program("", "a pass from one result for what only another was computed from: nothing of the former's is asked for")
def led_nowhere(compile):
    @compile(fullgraph=True)
    def f(x, w):
        return x * 2, w.exp(), w + 1, torch.complex(w, w).real.frac()

    x, w = _x(), _x()
    y, z, u, v = f(x, w)
    with torch.no_grad():
        z.mul_(2)
    found = [torch.autograd.grad(t.sum(), x, allow_unused=True, retain_graph=True) for t in (z, u, v, y)]
    try:
        found.append(torch.autograd.grad(z.sum(), (x, w), allow_unused=True, retain_graph=True))
    except RuntimeError as e:
        found.append(str(e)[:60])
    found.append(torch.autograd.grad((u * u).sum() + (y * y).sum(), (x, w)))
    return found


@program("", "such a pass leaves what the other results need")
def led_nowhere_first(compile):
    @compile(fullgraph=True)
    def f(x, w):
        return x.sin(), w.exp() * w

    x, w = _x(), _x()
    y, z = f(x, w)
    nothing = torch.autograd.grad(z.sum(), x, allow_unused=True)
    return nothing, torch.autograd.grad(y.sum(), x), torch.autograd.grad(z.sum(), w)
