"""Inputs that differ in being views, and of what: the flags of views made under `no_grad`, and what passes refuse after a write."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


def leaves():
    """Leaves alike but for being views, and of what: of nothing, of what needs no gradient; and a parameter of a view."""
    return (
        torch.arange(9.0).reshape(3, 3).clone().requires_grad_(),
        torch.arange(9.0).view(3, 3).requires_grad_(),
        torch.nn.Parameter(torch.arange(9.0).view(3, 3)),
    )


@program("", "a view under no_grad takes its flag from the base of a leaf that is a view")
def flags_of_views_of_leaves(compile):
    found = []
    for order in itertools.permutations(range(3), 2):

        @compile
        def f(x):
            with torch.no_grad():
                v, d, c = x[1:], x.detach(), x + 1
            return v.requires_grad, v * 2, d * 2, c, v

        for k in order:
            x = leaves()[k]
            *results, v = f(x)
            found.append((results, v.requires_grad, [r.requires_grad for r in results if isinstance(r, torch.Tensor)]))
            (results[1].sum() + x.sum()).backward()
            found.append(x.grad)
    return found


@program("", "a view under no_grad of what has a history takes its flag from the base of both, and results computed from it have none")
def flags_of_views_of_what_has_a_history(compile):
    kinds = (*range(3), *((k, made) for k in range(3) for made in (lambda x: x.view(3, 3), lambda x: x * 1, lambda x: (x * 1).view(3, 3))))
    found = []
    for order in itertools.permutations(range(len(kinds)), 2):

        @compile(fullgraph=True)
        def f(x):
            with torch.no_grad():
                v = x[1:]
            return v.sum() * 2, x.exp(), (v, v.sin())[1]

        for k in order:
            kind = kinds[k]
            leaf = leaves()[kind if isinstance(kind, int) else kind[0]]
            x = leaf if isinstance(kind, int) else kind[1](leaf)
            results = f(x)
            found.append([r.requires_grad for r in results])
            found.append(torch.autograd.grad(sum(r.sum() for r in results), leaf, allow_unused=True))
    return found


@program("", "no gradients around a call with leaves that are views")
def views_of_leaves_without_gradients(compile):
    @compile
    def f(x):
        return x.t(), x.view(-1)[2:], x.detach()

    with torch.no_grad():
        return [[t.requires_grad for t in f(x)] for x in (*leaves(), *reversed(leaves()))]


def made(kind: int, a: torch.Tensor) -> torch.Tensor:
    match kind:
        case 0:
            return a.view(3, 3) * 1
        case 1:
            return a[:9].view(3, 3)
        case 2:
            return a.view(3, 3).unsqueeze(0).unbind()[0]
        case 3:
            return a.view(3, 3).split([1, 2])[1]
        case 4:
            with torch.no_grad():
                return a.view(3, 3)
        case _:
            hooked = a.view(3, 3)
            hooked.register_hook(lambda g: g * 3)
            return hooked


def without_gradients(write):
    def run(y):
        with torch.no_grad():
            write(y)

    return run


WRITES = {
    "list": without_gradients(lambda y: torch._foreach_mul_([y], 2)),
    "several": without_gradients(lambda y: torch.max(torch.ones(3, *y.shape), 0, out=(y, torch.zeros(y.shape, dtype=torch.long)))),
    "itself without gradients": without_gradients(lambda y: y.mul_(2)),
    "detached": lambda y: y.detach().mul_(2),
    "itself": lambda y: y.mul_(2),
    "part": lambda y: y[1:].mul_(2),
    "none": lambda y: y.detach().mul(2),
}


@program("", "views of several kinds are written to by a function, then read, and a pass goes through them")
def written_views(compile):
    found = []
    for (name, write), order in itertools.product(WRITES.items(), itertools.permutations(range(6), 2)):

        @compile
        def f(y, write=write):
            write(y)
            return y * 2

        for kind in order:
            a = torch.linspace(-1, 1, 9).requires_grad_()
            base = a * 1
            y = made(kind, base)
            try:
                z = f(y)
                (z.sum() + y.sum() + base.sum()).backward()
            except RuntimeError as error:
                found.append((name, kind, str(error)[:25]))
            found.append((name, kind, a.grad, y._version))
    return found


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + x * 0


def through_view(x):
    with torch.no_grad():
        y = x.t()
    return y * 2, x.sin()


READS = {
    "one": lambda x: (x * 1.0, x.sin()),
    "chain": lambda x: (y := x * 1.0, y.exp()),
    "flag": lambda x: x.requires_grad_() * 2,
    "function": Twice.apply,
    "checkpoint": lambda x: checkpoint(lambda t: t.sin() * t, x, use_reentrant=False),
    "vmap": lambda x: torch.vmap(lambda t: t.sin() * 2)(x),
    "detached": lambda x: (x.detach() * 2, x * x.detach()),
    "under no_grad": lambda x: (torch.no_grad()(torch.sin)(x), x * 2),
    "view": through_view,
    "list": lambda x: torch._foreach_sin([x, x * 1]),
}


def leaf(kind: int) -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
    match kind:
        case 0:
            return base, base
        case 1:
            return base, base.detach().requires_grad_()
        case 2:
            with torch.no_grad():
                return base, base.t()
        case 3:
            with torch.no_grad():
                return base, base.t().requires_grad_()
        case 4:
            with torch.no_grad():
                return base, (base * 1).t()
        case 5:
            other = base * 1
            with torch.no_grad():
                return base, other.t()
        case _:
            base = base.detach().clone()
            view = base.t()
            base.requires_grad_()
            return base, view


@program("", "what is computed from leaves and from views of leaves, whose gradients may lead nowhere, in passes with a write before them")
def leaves_and_views(compile):
    found = []
    for (name, read), order in itertools.product(READS.items(), itertools.permutations(range(7), 2)):

        @compile
        def f(x, read=read):
            return read(x)

        for kind, is_graded, is_written in ((order[0], name != "flag", False), *((k, True, w) for k in order for w in (False, True))):
            base, x = leaf(kind)
            with torch.set_grad_enabled(is_graded):
                results = f(x)
            if is_written:
                x.detach().mul_(2)
            for i, result in enumerate(results if isinstance(results, (tuple, list)) else (results,)):
                found.append((name, kind, i, result.requires_grad, result.is_leaf))
                try:
                    result.sum().backward()
                except RuntimeError as error:
                    found.append(str(error)[:20])
            found.append((base.grad, x.grad, x.requires_grad))
    return found


FRESH = {
    "zeroed": lambda a: torch.empty(3).zero_(),
    "filled": lambda a: torch.ones(3).fill_(2),
    "out": lambda a: torch.eq(a, 1, out=torch.empty(0)),
    "product": lambda a: (a.detach() * 2).add_(1),
    "history": lambda a: (a * 2).add_(1),
}
VIEWS = {
    "whole": lambda t: (t[:], t),
    "part": lambda t: (t[1:], t),
    "chunk": lambda t: (t.chunk(1, 0)[0], t),
    "two": lambda t: (t[:2], t[1:]),
    "view alone": lambda t: (t.view(3, 1),),
    "no_grad": lambda t: (torch.no_grad()(torch.Tensor.t)(t), t),
}


@program("", "views of values that were written to are results, beside one that keeps the value for its pass")
def views_of_written_values(compile):
    found = []
    for (name, fresh), (kind, views) in itertools.product(FRESH.items(), VIEWS.items()):

        @compile
        def f(a, fresh=fresh, views=views):
            made = fresh(a)
            return made * a, *views(made)

        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            a = torch.linspace(-1, 1, 3).requires_grad_()
            with mode():
                first, *rest = f(a)
            found.append((name, kind, first, [(t, t.requires_grad, t.is_leaf, t.is_inference()) for t in rest]))
            if mode is torch.enable_grad:
                first.sum().backward()
                found.append(a.grad)
    return found


@program("", "writes under no_grad and in inference mode to leaves that are views, whose histories can't be read from then on")
def written_leaf_views(compile):
    found = []
    for kind, mode in itertools.product(range(7), (torch.no_grad, torch.inference_mode)):

        @compile
        def f(x):
            y = x * 1.0
            x[1:].zero_()
            print("between")
            return y

        _, x = leaf(kind)
        for _ in range(3):
            try:
                with mode():
                    found.append((kind, f(x), x._version))
            except RuntimeError as error:
                found.append(str(error)[:40])
    return found


VIEWS_OF_A_LEAF = {
    "view": lambda x: x.view(9),
    "view of a view": lambda x: x[1:].t(),
    "chunk": lambda x: x.chunk(3)[0],
    "product": lambda x: x * 2,
}
WRITES_TO_A_LEAF = {
    "view": lambda x, y, base: y.mul_(2),
    "list": lambda x, y, base: torch._foreach_mul_([y, torch.ones(3)], 2.0),
    "leaf": lambda x, y, base: x.mul_(2),
    "detached": lambda x, y, base: x.detach()[1:].mul_(2),
    "base": lambda x, y, base: base.view(-1)[2:5].zero_(),
    "outside": lambda x, y, base: torch.add(torch.ones(9), 1, out=base.view(-1)),
    "data": lambda x, y, base: x.data.mul_(2),
}
ASKS = {
    "leaf": lambda y: (y, y.is_leaf),
    "computed": lambda y: (y * 3, y.sum()),
    "kept": lambda y: (y, y.retain_grad() if y.requires_grad and not y.is_leaf else None),
    "result": lambda y: (y, y.requires_grad),
}


@program("", "views of a leaf that is a view of what needs no gradient, written to without gradients: what they were is cut off")
def written_views_of_leaves(compile):
    found = []
    for (name, view), (how, write), (what, read) in itertools.product(VIEWS_OF_A_LEAF.items(), WRITES_TO_A_LEAF.items(), ASKS.items()):

        @compile
        def f(x, base, view=view, write=write, read=read):
            y = view(x)
            with torch.no_grad():
                write(x, y, base)
            return read(y)

        for is_view in (True, False, True):
            base = torch.linspace(-1, 1, 9)
            x = base.view(3, 3).requires_grad_() if is_view else base.clone().view(3, 3).detach().clone().requires_grad_()
            try:
                result, beside = f(x, base)
                found.append((name, how, what, is_view, result, result.is_leaf, beside))
                (result.sum() + x.sum()).backward()
                found.append(result.grad if what == "kept" and result.retains_grad else None)
            except RuntimeError as error:
                found.append((name, how, what, is_view, str(error)[:40]))
            found.append((x.grad, x, x._version, base, base._version))
    return found


DETACHED = {
    "computed": lambda x, w: (w * 2).detach(),
    "argument": lambda x, w: x.detach(),
    "data": lambda x, w: (x * 2).data,
    "part": lambda x, w: w[:].detach(),
    "twice": lambda x, w: (x * w).detach().detach(),
    "factory": lambda x, w: torch.full((3, 3), 0.5),
    "written": lambda x, w: torch.empty(3, 3).fill_(2),
    "written after": lambda x, w: (x * 1).detach().mul_(2),
    "nothing": lambda x, w: w * 1,
}
RESULTS = {
    "part": lambda t: (t, t[1:]),
    "part first": lambda t: (t[1:], t),
    "parts": lambda t: (t[1:], t[:2]),
    "several": lambda t: (t, t, *t.chunk(2), t.t()),
    "without gradients": lambda t: (t, torch.no_grad()(torch.Tensor.t)(t)),
    "again": lambda t: (t.detach()[1:], t[1:], t.detach(), t),
}


@program("", "results that are views of a detached tensor, which is then written to through one of them")
def views_of_detached_tensors(compile):
    found = []
    for (kind, detached), (name, results) in itertools.product(DETACHED.items(), RESULTS.items()):

        @compile
        def f(x, w, detached=detached, results=results):
            return results(detached(x, w))

        x, w = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_(), torch.linspace(2, 3, 9).view(3, 3)
        made = f(x, w)
        bases = [[k for k, other in enumerate(made) if t._base is other or (t._base is not None and t._base is other._base)] for t in made]
        found.append((kind, name, bases))
        if kind != "argument":
            try:
                made[0].mul_(x[-made[0].shape[0] :].sum())
            except RuntimeError as error:
                found.append(str(error)[:30])
            for t in made:
                try:
                    found.append((t.requires_grad, t.is_leaf, t.detach()))
                    found.append(torch.autograd.grad(t.sum(), x, allow_unused=True, retain_graph=True)[0] if t.requires_grad else None)
                except RuntimeError as error:
                    found.append(str(error)[:30])
    return found


CHAINS = {
    "closed first": (torch.no_grad, torch.enable_grad),
    "closed last": (torch.enable_grad, torch.no_grad),
    "closed between": (torch.enable_grad, torch.no_grad, torch.enable_grad),
    "closed twice": (torch.no_grad, torch.enable_grad, torch.no_grad, torch.enable_grad),
    "in inference mode": (torch.inference_mode, torch.enable_grad),
}
VIEWS = {"turned": torch.Tensor.t, "part": lambda t: t[:2], "one of several": lambda t: t.split(2)[0], "cut off": torch.Tensor.detach}
AFTER = {
    "nothing": lambda x, made: None,
    "base written": lambda x, made: x.detach().mul_(2),
    "last written": lambda x, made: made[-1].mul_(2),
    "first written": lambda x, made: torch.no_grad()(made[0].mul_)(2),
}


@program("", "views with a history of views from under no_grad: gradients go no further than those, and writes are refused")
def views_of_closed_views(compile):
    found = []
    for (chain, modes), (name, view), (after, do), is_own, keep in itertools.product(
        CHAINS.items(), VIEWS.items(), AFTER.items(), (False, True), (slice(-1, None), slice(None), slice(1, None, 2))
    ):

        @compile(fullgraph=True)
        def f(x, modes=modes, view=view, is_own=is_own, keep=keep):
            made = [x * 2 if is_own else x[...]]
            for mode in modes:
                with mode():
                    made.append(view(made[-1]))
            return made[keep]

        x = torch.linspace(-1, 1, 16).view(4, 4).clone().requires_grad_()
        made = f(x)
        found.append((chain, name, after, is_own))
        try:
            do(x, made)
        except RuntimeError as error:
            found.append(str(error)[:60])
        for t in made:
            try:
                found.append((t.requires_grad, t.grad_fn is None, t.is_leaf, t._is_view(), t.detach()))
                if t.requires_grad:
                    t.sum().backward(retain_graph=True)
            except RuntimeError as error:
                found.append(str(error)[:60])
        found.append((x.grad, [t.grad for t in made if t.requires_grad and after == "nothing" and t.is_leaf]))
    return found


class Flattened(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return (grad * 3).view(3, 3)


WRITES_UNDER_A_FUNCTION = {
    "base": lambda a, v: a.mul_(2),
    "detached": lambda a, v: a.detach().mul_(2),
    "view": lambda a, v: v.mul_(2),
    "nothing": lambda a, v: None,
}


@program("", "views that an autograd.Function gave, written to without gradients: what autograd says of them names the function")
def written_views_of_functions(compile):
    found = []
    for (how, write), is_own, keep in itertools.product(WRITES_UNDER_A_FUNCTION.items(), (False, True), range(4)):

        @compile
        def f(x, write=write, is_own=is_own, keep=keep):
            a = x * 1 if is_own else x
            v = Flattened.apply(a)
            with torch.no_grad():
                write(a, v)
            return ((v,), (v, a), (v[1:],), (v[1:], v))[keep]

        x = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
        try:
            for t in f(x):
                found.append((how, is_own, keep, t.requires_grad, t.is_leaf))
                t.sum().backward(retain_graph=True)
                found.append(x.grad)
        except RuntimeError as error:
            found.append(str(error)[:60])
    return found


VIEWS_BEFORE_A_WRITE = {
    "one of several": lambda x: x.chunk(3)[0],
    "closed": lambda x: torch.no_grad()(lambda: x[:1])(),
    "part": lambda x: x[:1],
    "whole": lambda x: x,
}


@program(
    "", "operators refuse a view once what it is a view of was written, as another argument: what was written before stays written once"
)
def refused_after_a_write(compile):
    found = []
    for (inside, view), (outside, argument), twice in itertools.product(
        VIEWS_BEFORE_A_WRITE.items(), VIEWS_BEFORE_A_WRITE.items(), (False, True)
    ):

        @compile
        def f(x, memory, view=view, twice=twice):
            y = view(x)
            with torch.no_grad():
                memory.add_(1)
            if twice:
                memory.detach().view(-1)[2:5].mul_(3)
            return y * 3

        memory = torch.linspace(-1, 1, 9)
        x = argument(memory.view(3, 3).requires_grad_())
        try:
            found.append(f(x, memory))
        except RuntimeError as error:
            found.append(str(error)[:60])
        found.append((inside, outside, twice, memory, memory._version))
    return found


@program("", "one of several views of an argument that a write gave its history, which a later write makes anew: what autograd says of it")
def one_of_several_of_what_gets_a_history(compile):
    found = []
    for part in (lambda p: p.unbind()[0], lambda p: p.split(2)[1], lambda p: p.chunk(2)[0][:1]):
        for again in (lambda p, r: p.mul_(2), lambda p, r: p.copy_(r.sum())):
            for first in (lambda p, r: p.copy_(r), lambda p, r: p.mul_(2)):

                @compile(fullgraph=True)
                def f(p, r):
                    first(p, r)
                    view = part(p)
                    again(p, r)
                    return view, p

                r = torch.ones(3, requires_grad=True)
                view, p = f(torch.linspace(0, 1, 3), r * 2)
                for look in (lambda v: str(v.grad_fn).partition(" ")[0], lambda v: v.mul_(2)):
                    try:
                        found.append(look(view))
                    except RuntimeError as e:
                        found.append(str(e)[:40])
                found.append((p, view.detach()))
    return found


def passes(results, x):
    """The gradients of each result and of all together, or what autograd says; the node that it names depends on strides."""
    for result in (*results, sum(r.sum() for r in results)):
        try:
            yield torch.autograd.grad(result.sum(), x, retain_graph=True)
        except RuntimeError as e:
            yield str(e).partition(", which is")[0]


@program("", "passes that read views of what is turned in place later")
def passes_through_views_of_what_is_turned(compile):
    found = []
    for view in (lambda v: v.flatten(), lambda v: v.view(2, 6), lambda v: v[1:]):
        for turned in (lambda v: v.t_(), lambda v: v.unsqueeze_(0), lambda v: v.mul_(2).t_()):

            @compile(fullgraph=True)
            def f(x):
                v = x * 2
                seen = view(v)
                results = (seen.outer(x.flatten()), seen * 3) if seen.dim() == 1 else (seen.sin(), seen * 3)
                return *results, turned(v)

            x = torch.arange(12.0).view(3, 4).requires_grad_()
            results = f(x)
            found += passes(results, x)
    return found


@program("", "passes that read views of leaves, which an operator without a gradient has written to since: what autograd says of each")
def passes_through_written_views_of_leaves(compile):
    def padded(v, x):
        y = F.pad(v, (1, 2), mode="replicate")
        return y, y * x.sum()

    found = []
    for body in (lambda v, x: [v.sin()], lambda v, x: [v.sin(), x * x], padded):
        for view in (lambda x: x[None], lambda x: x.mT[:, None]):
            for k in range(3):

                @compile(fullgraph=True)
                def f(x):
                    results = body(view(x), x)
                    x.logical_not_()
                    return results

                x = leaves()[k]
                results = f(x)
                found += passes(results, x)
    return found
