"""Results of one function whose histories share nothing, or something: backward passes one after the other, and through some of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values or (1.0, 2.0, 3.0), requires_grad=True)


def passes(results: Any, order: str, **options: Any) -> list[str]:
    """A backward pass per letter; a capital keeps the graph."""
    said = []
    for letter in order:
        try:
            results["abc".index(letter.lower())].sum().backward(retain_graph=letter.isupper(), **options)
            said.append("ran")
        except RuntimeError as e:
            said.append(str(e)[:48])
    return said


@program("", "two results that share nothing are differentiated one after the other")
def two_histories(compile):
    @compile
    def f(x, y):
        return x.sin(), y.exp()

    found = []
    for order in ("ab", "ba", "aa", "aab", "Aab", "abb", "aBb", "abA"):
        x, y = leaf(), leaf()
        found.append((order, passes(f(x, y), order), x.grad, y.grad))
    return found


@program("", "one input behind two results, and what both are computed from saves nothing, or something")
def one_input(compile):
    @compile
    def nothing_saved(x):
        h = x + 1
        return h.sin(), h.exp()

    @compile
    def something_saved(x):
        h = x.sin()
        return h + 1, h.exp(), x.cos()

    found = []
    for f, orders in ((nothing_saved, ("ab", "ba")), (something_saved, ("ab", "acc", "bca"))):
        for order in orders:
            x = leaf()
            found.append((passes(f(x), order), x.grad))
    return found


@program("", "what saves nothing is differentiated as often as one likes")
def nothing_saved(compile):
    @compile
    def f(x, y):
        return x + y

    @compile
    def g(x, y):
        return x[1:] - y[1:], x.sin()

    @compile
    def h(x, y):
        return x * y

    found = []
    for fn, order in ((f, "aaa"), (g, "aabaa"), (g, "bab"), (h, "aa")):
        x, y = leaf(), leaf()
        results = fn(x, y)
        results = results if isinstance(results, tuple) else (results,)
        found.append((passes(results, order), x.grad, y.grad))
    return found


@program("", "an optimizer steps between the passes of two models in one function")
def two_optimizers(compile):
    torch.manual_seed(0)
    one, two = torch.nn.Linear(3, 3), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    models = (one, two)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]

    @compile
    def f(x):
        return one(x).pow(2).sum(), two(x).pow(2).sum()

    found = []
    for _ in range(3):
        for loss, optimizer in zip(f(torch.ones(2, 3)), optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
    return found, [p.detach() for m in models for p in m.parameters()]


@program("", "what a later pass needs was changed in between")
def changed_in_between(compile):
    @compile
    def f(x, y):
        return x.sin(), y.exp(), y.sin()

    found = []
    for position in (0, 1):
        x, y = leaf(), leaf()
        results = f(x, y)
        said = passes(results, "a")
        with torch.no_grad():
            (x, y)[position].mul_(2)
        found.append((said, passes(results, "c")[0][:30], x.grad, y.grad))
    return found


@program("", "random numbers of one result while another is differentiated first")
def random_numbers(compile):
    @compile
    def f(x, y):
        return F.dropout(x * 2, 0.5), F.dropout(y * 3, 0.5).exp()

    torch.manual_seed(1)
    x, y = torch.ones(64, requires_grad=True), torch.ones(64, requires_grad=True)
    results = f(x, y)
    said = passes(results, "ab")
    return said, x.grad.count_nonzero() > 0, [r.detach() for r in results], x.grad, y.grad, torch.rand(2)


@program("", "autograd.grad for one result after the other, with another's graph kept")
def gradients_one_by_one(compile):
    @compile
    def f(x, y):
        return x.sin(), (x + y).exp()

    x, y = leaf(), leaf()
    a, b = f(x, y)
    first = torch.autograd.grad(a.sum(), x)
    second = torch.autograd.grad(b.sum(), (x, y), retain_graph=True)
    return first, second, torch.autograd.grad(b.sum(), (x, y)), passes((a, b), "ab")


@program("", "a result that another was computed from, differentiated before it and after it")
def linked_results(compile):
    @compile
    def f(x):
        y = x + 1
        return y, y.sin(), y.exp()

    found = []
    for order in ("abc", "cba", "bcb", "aab"):
        x = leaf()
        found.append((passes(f(x), order), x.grad))
    return found


@program("", "an autograd.Function that saves nothing, and one that does")
def own_functions(compile):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    @compile
    def f(x, y):
        return Twice.apply(x), Square.apply(y), Square.apply(Twice.apply(x))

    found = []
    for order in ("aab", "bab", "ac", "ca"):
        x, y = leaf(), leaf()
        found.append((passes(f(x, y), order), x.grad, y.grad))
    return found


@program("", "infinity behind a result that nothing flows back from makes no NaN")
def infinite_slope(compile):
    @compile
    def f(x):
        return x.sqrt(), x * 2

    @compile
    def g(x, y):
        h = x * y
        return h.log(), h + 1, h.sin()

    x, z, y = leaf(0.0, 1.0), leaf(0.0, 1.0), leaf(0.0, 2.0)
    f(x)[1].sum().backward()
    _, b, c = g(z, y)
    (b + c).sum().backward()
    w = leaf(0.0, 1.0)
    f(w)[0].sum().backward()
    return x.grad, z.grad, y.grad, w.grad


@program("", "the same through matrices, with the graph kept, and with a NaN that belongs there")
def infinite_weights(compile):
    weight = torch.tensor([[float("inf"), 1.0], [2.0, 3.0]])

    @compile
    def f(x):
        h = x.sin()
        return h @ weight, h.exp(), h.sqrt() - h.sqrt()

    found = []
    for chosen, kept in ((1, False), (1, True), (0, False), (2, False)):
        x = torch.tensor([[0.0, 1.0]], requires_grad=True)
        result = f(x)[chosen]
        result.sum().backward(retain_graph=kept)
        if kept:
            result.sum().backward()
        found.append(x.grad)
    return found


@program("", "random numbers and a gradient that doesn't arrive behind an infinite slope")
def infinite_slope_with_random_numbers(compile):
    @compile
    def f(x):
        h = F.dropout(x, 0.5)
        return h.sqrt(), h * 3

    torch.manual_seed(3)
    x = torch.ones(32, requires_grad=True)
    result = f(x)[1]
    result.sum().backward()
    return result.detach(), x.grad, torch.rand(2)


@program("", "a graph that a pass meets without a gradient for it is differentiated by the next pass")
def met_without_a_gradient(compile):
    @compile
    def first(x):
        return x.exp()

    @compile
    def scaled(x):
        return x * 2

    @compile
    def two(x):
        return x.sin(), x.exp()

    @compile
    def second(x, y):
        return x.cos(), y * x, y.sin()

    def chain(x, order):
        return passes(second(x, first(x)), order)

    def bare(x, order):
        return passes(second(x, scaled(x)), order)

    def parts(x, order):
        a, b = two(x)
        return passes((*second(x, a), b), order)

    found = []
    for call in (chain, bare, parts):
        for order in ("ab", "abb", "aab", "Ab", "aBb", "aac", "abc", "acb", "cab"):
            x = leaf()
            found.append((order, call(x, order), x.grad))
    return found


@program("", "what such a graph has saved was changed before or after that pass, or it was met by a pass for second derivatives")
def met_and_changed(compile):
    @compile
    def first(x, w):
        return (x * w).sin()

    @compile
    def second(x, y):
        return x.cos(), y + 1

    found = []
    for changes in ("", "before", "after"):
        x, w = leaf(), torch.ones(3)
        a, b = second(x, first(x, w))
        if changes == "before":
            w.mul_(2)
        said = passes((a, b), "a")
        if changes == "after":
            w.mul_(2)
        found.append((said, passes((a, b), "b")[0][:30], x.grad))
    x, w = leaf(), torch.ones(3)
    a, b = second(x, first(x, w))
    said = passes((a, b), "a")
    (g,) = torch.autograd.grad(b.sum(), x, create_graph=True)
    return found, g.detach(), torch.autograd.grad(g.sum(), x)


@program("", "a leaf made between two graphs, and results of the second one after the other")
def leaf_made_in_between(compile):
    @compile
    def f(x):
        y = x * 1.0
        z = torch.ones(3, requires_grad=True) * y
        return x.sin(), z

    x = leaf()
    return passes(f(x), "ab"), x.grad


@program("", "results of a graph that writes in place to an input with a history, or to a view of it, one after the other")
def written_input(compile):
    def written(x, y):
        y.mul_(2)
        return x.sin(), x.exp(), y

    def of_a_view(x, y):
        y[0].mul_(2)
        return x.sin(), x.exp(), y

    def read_before(x, y):
        z = y.cos()
        y.mul_(x)
        return x.sin(), z, y

    found = []
    for fn in (written, of_a_view, read_before):
        f = compile(fn)
        for order in ("abc", "cab", "bca", "aab", "Aab", "cc", "Ccc", "acc"):
            x, w = leaf(), leaf(4.0, 5.0, 6.0)
            found.append((order, passes(f(x, w + 1), order), x.grad, w.grad))
    return found


@program("", "results that a pass left alone go when they are dropped")
def dropped_after_a_pass(compile):
    @compile
    def first(x):
        return x.exp()

    @compile
    def second(x, y):
        return x.cos(), y * x

    x = leaf()
    y = first(x)
    results = second(x, y)
    said = passes(results, "a")
    gone = weakref.ref(y)
    del y, results
    return said, gone() is None


@program("", "autocast keeps one cast of a leaf: its gradients are added in bfloat16, in a later pass through a part of the graph too")
def later_passes_under_autocast(compile):
    def f(x, w, leaf):
        y = x * 1.0
        z = x @ (x @ (w + 0.5))
        for _ in range(3):
            z = z @ leaf
        return y, z, (x * 2).exp()

    def of_computed(x, w, leaf):
        return f(x, w, leaf)

    found = []
    for computed, fn in ((False, compile(f)), (True, compile(of_computed))):
        for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
            torch.manual_seed(3)
            x, leaf, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
            with torch.autocast("cpu", torch.bfloat16):
                results = fn(x * 1.5 if computed else x, w, leaf)
            for i in order:
                results[i].float().sum().backward(retain_graph=computed)
                found += [x.grad.clone(), leaf.grad]
    return found


@program("", "results that their own derivative reads are written after a pass from another one, or those that none does")
def results_written_in_between(compile):
    @compile
    def f(x, y):
        return x * 2, y.relu(), y + 1

    @compile
    def inside(x, y):
        z = y.relu()
        (x * 2).sum().backward()
        z[0] = 3.0
        return (z,)

    @compile
    def two(x, y):
        z = y.exp()
        return x * 2, z, z.t().sin(), y.sigmoid()

    found = []
    for fn, order in ((f, "ab"), (f, "aba"), (f, "ac"), (f, "acb"), (two, "ab"), (two, "ac"), (inside, "a")):
        for written in range(3):
            x, y = leaf(), leaf(-1.0, 2.0, 3.0)
            results = fn(x, y)
            said = passes(results, order[:1])
            if written < len(results):
                results[written].detach().mul_(2)
            found.append((said, [s[:30] for letter in order[1:] for s in passes(results, letter)], x.grad, y.grad))
    return found


@program("", "a pass of one result, where only another's derivative reads what was written, be it an argument or a result")
def written_for_another(compile):
    def products(x, w):
        return x.relu() + x.exp(), w * x, w + x

    def results(x, w):
        z = x.exp()
        return z.sin() * 1.0, w * x, z

    def alone(x, w):
        with torch.no_grad():
            kept = w * 2
        return x.sin(), x * kept, kept

    found = []
    for fn in (products, results, alone):
        for written in range(5):
            for order in ("ab", "AB", "ba", "BA", "AC", "bc", "BB"):
                x, w = leaf(), torch.ones(3)
                made = compile(fn)(x, w)
                (x, w, *made)[written].detach().mul_(2)
                again_from_old = (written == 0 and order[0] in "bB") or (written == 1 and fn is alone)  # what later passes can't have
                if not again_from_old:
                    found.append((passes(made, order), x.grad))
    return found


@program("", "a pass that is differentiated, of a result whose derivative does not read what was written")
def written_for_another_and_differentiated(compile):
    @compile
    def f(x, w):
        return x.sin(), w * x

    found = []
    for i in range(2):
        x, w = leaf(), torch.ones(3)
        made = f(x, w)
        w.mul_(2)
        try:
            (g,) = torch.autograd.grad(made[i].sum(), x, create_graph=True)
            found += [g, torch.autograd.grad(g.sum(), x)] if g.requires_grad else [g]
        except RuntimeError as e:
            found.append(str(e)[:48])
    return found


@program(
    "", "an argument or a result is written before passes from results one after the other: derivatives that read it refuse, no others"
)
def written_between_passes(compile):
    def separate(x, w):
        return x.relu(), x.exp(), x.sin()

    def summed(x, w):
        return x.relu() + x.exp(), w * x, w + x

    def kept(x, w):
        return x.exp().sin() * 1.0, w * x, x.exp()

    def from_one(x, w):
        h = x + 1
        return h * 2, h.exp() * w, h.sin()

    def read_twice(x, w):
        return x * w, x * x, w.cos() * x

    def infinite(x, w):
        return x.log(), x.sqrt() + x.asin(), (x * w).tanh()

    found = []
    for fn in (separate, summed, kept, from_one, read_twice, infinite):
        f = compile(fn)
        for written in range(5):
            for when, order in (
                (0, "ab"),
                (0, "ca"),
                (0, "bca"),
                (0, "abb"),
                (1, "ab"),
                (1, "ba"),
                (1, "cb"),
                (1, "Aab"),
                (2, "bca"),
                (2, "aab"),
            ):
                x, w = leaf(0.5, 1.0, 0.25), torch.full((3,), 2.0)
                made = f(x, w)
                said = passes(made, order[:when])
                (x, w, *made)[written].detach().mul_(2)
                found.append((said, passes(made, order[when:]), x.grad))
    return found


@program("", "what a pass has freed goes, though others can still be made")
def freed_by_a_pass(compile):
    @compile
    def f(x, w):
        return (x @ w).exp(), x.relu()

    x, w = torch.ones(64, 64, requires_grad=True), torch.ones(64, 64)
    results = f(x, w)
    gone = weakref.ref(results[0])
    results[0].sum().backward()
    results = results[1:]
    x.detach().mul_(-1)
    results[0].sum().backward()
    return gone() is None, x.grad


@program("", "an argument that no result was computed from: what was saved behind it is not asked for")
def arguments_that_no_result_needs(compile):
    @compile
    def f(y, z):
        print((z * 2).sum() > 1e9)
        y.mul_(2)
        return y * 3

    @compile
    def shown(y, z):
        torch.func.grad(lambda s: (s * z).sum())(y)
        y[0].add_(1)
        return y

    seen = []
    for fn in (f, shown):
        for power in (1, 2):
            x = torch.arange(4.0).view(2, 2).requires_grad_()
            y = x + 1
            z = (y**power).sin()
            r = fn(y, z)
            r.sum().backward(retain_graph=True)
            seen += [r.detach(), x.grad.clone()]
            try:
                z.sum().backward()
            except RuntimeError as e:
                seen.append(str(e)[:60])
            seen.append(x.grad)
    return seen


REBUILT: dict[str, Callable[[torch.Tensor], Any]] = {
    "reshaped": lambda x: x.reshape(-1),
    "flattened": lambda x: x.flatten(),
    "a linear layer": lambda x: F.linear(x[None], torch.eye(4)),
    "a product of matrices": lambda x: torch.matmul(x.expand(2, 3, 4), torch.eye(4)),
    "split": lambda x: torch.unsafe_split(x * 1, 2)[0],
    "chunked": lambda x: torch.unsafe_chunk(x * 1, 2)[1],
    "seen otherwise": lambda x: torch.ops.aten._unsafe_view(x.contiguous() * 2, [4, 3]),
}
WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda t: t.mul_(2),
    "through a view": lambda t: t.unsqueeze(0).mul_(2),
    "a part": lambda t: t[:1].mul_(3),
    "not at all": lambda t: None,
}
RESULTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda t: (t,),
    "with its views": lambda t: (t, t[:1], t[..., None]),
    "a view": lambda t: (t[..., None],),
}


@program("", "what copies, or hides from autograd that it gives views, is written and returned")
def hidden_views(compile):
    found = []
    for name, rebuild in REBUILT.items():
        for how, write in WRITES.items():
            for what, select in RESULTS.items():

                def f(x, rebuild=rebuild, write=write, select=select):
                    t = rebuild(x)
                    write(t)
                    return select(t)

                f.__code__ = f.__code__.replace(co_name=f"{name} {how} {what}")
                x = torch.arange(12.0).reshape(4, 3).t().requires_grad_()
                results = compile(f)(x * 1)
                sum((r * k).sum() for k, r in enumerate(results, 2)).backward()
                of_whole = name not in ("split", "chunked")  # parts that nobody writes to are views here
                found.append((name, how, what, x.grad, results, of_whole and [r._is_view() for r in results]))
    return found
