"""Arguments and results that the caller writes to between the forward and the backward: whether that is an error is eager's to say."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program

READ_RESULT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sqrt": torch.sqrt,
    "softmax": lambda t: torch.softmax(t, -1),
    "log_softmax": lambda t: torch.log_softmax(t, -1),
    "of a row": lambda t: t[0].exp(),
    "seen otherwise": lambda t: t.sigmoid().view(-1),
}
READ_ARGUMENT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sin": torch.sin,
    "log": torch.log,
    "square": torch.square,
    "gelu": torch.nn.functional.gelu,
}
READ_NOTHING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scaled": lambda t: t * 2,
    "negated": torch.neg,
    "summed": lambda t: t.sum(0),
}


def _gradient_or_error(result: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor | str | None:
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return leaf.grad


def tried(compile, fn, write):
    """The gradient, or the kind of error, where `write` comes between the passes."""
    torch.manual_seed(0)
    x = torch.rand(4, 4, requires_grad=True)
    y = x * 1
    z = compile(fn)(y)
    with torch.no_grad():
        write(y, z)
    try:
        (z * torch.arange(z.numel()).view_as(z)).sum().backward()
    except RuntimeError as error:
        return type(error), str(error)[:60]
    return x.grad


def written(compile, rows, write):
    return {name: tried(compile, fn, write) for name, fn in rows.items()}


@program("", "arguments of operators whose derivative reads their result")
def argument_of_results(compile):
    return written(compile, READ_RESULT, lambda y, z: y.mul_(2))


@program("", "arguments that the derivative reads")
def argument_that_is_read(compile):
    return written(compile, READ_ARGUMENT, lambda y, z: y.mul_(2))


@program("", "results that the derivative reads")
def result_that_is_read(compile):
    return written(compile, READ_RESULT, lambda y, z: z.mul_(2))


@program("", "results of operators whose derivative reads their argument")
def result_of_arguments(compile):
    return written(compile, READ_ARGUMENT, lambda y, z: z.mul_(2))


@program("", "operators whose derivative reads neither")
def nothing_is_read(compile):
    return [written(compile, READ_NOTHING, lambda y, z: (y.mul_(2), z.mul_(2)))]


@program("", "a result that is an argument of the next step too")
def result_of_a_step(compile):
    @compile
    def step(h, w):
        return torch.tanh(h @ w)

    torch.manual_seed(0)
    w = torch.rand(3, 3, requires_grad=True)
    h = first = torch.rand(2, 3)
    for _ in range(3):
        h = step(h, w)
    first.zero_()
    try:
        h.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return w.grad


@program("", "what was computed of an argument is kept, not the argument: of leaves, values, views and casts")
def computed_of_arguments(compile):
    bodies = {
        "function": lambda x, w: x * w.exp(),
        "chain": lambda x, w: (x + 1).exp() * (w + 1).sigmoid(),
        "view": lambda x, w: (x.view(9) + 1).exp() * w.view(9).sigmoid(),
        "product": lambda x, w: (x * 2).relu() @ (w + 0.5),
        "mask": lambda x, w: torch.where(w > 0, x, x.exp()),
        "scores": lambda x, w: torch.softmax(x + w, -1) * w.abs(),
    }
    found = {}
    for name, body in bodies.items():
        for dtype in (None, torch.bfloat16):
            for computed in (False, True):
                torch.manual_seed(0)
                leaf, w = torch.rand(3, 3, requires_grad=True), torch.rand(3, 3) - 0.3
                x = leaf * 2 if computed else leaf
                with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
                    y = compile(body)(x, w)
                w.add_(1)
                with torch.no_grad():
                    x.add_(1)
                found[name, dtype, computed] = _gradient_or_error(y, leaf)
    return found


@program("", "autograd refuses gradients in views from under no_grad, of what the graph made as of inputs")
def gradients_into_views_without_history(compile):
    def part(z, x):
        with torch.no_grad():
            return (z * x)[0:2]

    def of_a_value(z, x):
        y = z * 2
        with torch.no_grad():
            return y.view(9).view(3, 3)

    def of_an_input(z, x):
        with torch.no_grad():
            return z[1:]

    def of_zeros(z, x):
        with torch.no_grad():
            return torch.zeros(3, 3)[0]

    def a_value(z, x):
        with torch.no_grad():
            return z * 2

    found = []
    for fn in (part, of_a_value, of_an_input, of_zeros, a_value):
        f = compile(fn)
        for _ in range(2):
            x = torch.linspace(1, 2, 9).view(3, 3).requires_grad_()
            y = f(torch.linspace(-1, 1, 9).view(3, 3), x)
            y.mul_(2)
            try:
                y.mul_(x[: y.shape[0]] if y.dim() > 1 else x[0])
            except RuntimeError as error:
                found.append(str(error)[:60])
            found.append((y.requires_grad, y.detach().clone()))

        def inside(z, x, fn=fn):
            y = fn(z, x)
            y.mul_(x[: y.shape[0]] if y.dim() > 1 else x[0])
            return y

        try:
            found.append(compile(inside)(torch.linspace(-1, 1, 9).view(3, 3), x).requires_grad)
        except RuntimeError as error:
            found.append(str(error)[:60])
    return found


def _one(views: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return views[1]


# several views at once, in the last rows by a transform; the others are refused if they were made under `no_grad`
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "unbind": lambda t: _one(t.unbind(0)),
    "split": lambda t: _one(t.split([1, 2], -1)),
    "chunk": lambda t: _one(t.chunk(3)),
    "hsplit": lambda t: _one(t.hsplit(3)).t(),
    "a row": lambda t: t[1],
    "turned": lambda t: t.t(),
    "jacfwd": lambda t: torch.func.jacfwd(torch.sin)(t[0]),
    "a row of jacfwd": lambda t: torch.func.jacfwd(torch.sin)(t)[0, 1],
    "a row of hessian": lambda t: torch.func.hessian(lambda s: (s**3).sum())(t[0])[1],
    "jacrev": lambda t: torch.func.jacrev(torch.sin)(t[0]),
}


@program("", "autograd refuses gradients in one of several views and in views from under no_grad, also in those that were returned")
def gradients_into_several_views(compile):
    def made(t, make):
        return make(t * 2)

    def written(t, view, x, counted):
        counted.mul_(2)
        y = x * 1.0
        try:
            view.mul_(y.sum())
        except RuntimeError as error:
            return str(error)[:90], counted + 1
        return view, counted + 1

    def in_parts(t, view, x, counted, make):
        view = make(t * 2)
        print("made")
        return written(t, view, x, counted)

    found = []
    f, g, h = compile(made), compile(written), compile(in_parts)
    for name, make in VIEWS.items():
        for first in (True, False):
            for _ in range(2):
                x, t, counted = torch.ones(3, requires_grad=True), torch.linspace(-1, 1, 9).view(3, 3), torch.ones(2)
                with torch.set_grad_enabled(first):
                    view = f(t, make)
                found.append((name, first, g(t, view, x, counted), counted, counted._version))
                with torch.set_grad_enabled(first):
                    view = make(t * 2)
                found.append((name, first, g(t, view, x, counted), counted, counted._version))
                with torch.set_grad_enabled(first):
                    found.append((name, first, h(t, None, x, counted, make), counted, counted._version))
    return found


# results that show others, or memory of the graph's own: a later result's derivative reads them
SHOWN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "itself": torch.sin,
    "turned": lambda t: t.sin().t(),
    "a row": lambda t: t.sin()[1],
    "a diagonal": lambda t: t.exp().diagonal(),
    "every other": lambda t: t.sin()[::2, 1:],
    "twice": lambda t: t.sin().expand(2, 4, 4),
    "of two axes": lambda t: t.cos().view(2, 8).unsqueeze(1),
}


@program("", "a returned view that a later result's derivative reads is written")
def views_that_are_read(compile):
    found = {}
    for name, shown in SHOWN.items():
        for later in (torch.square, torch.cos, torch.exp):
            for read in (0, 1):

                def fn(x, shown=shown, later=later):
                    y = shown(x)
                    return y, later(y)

                x = torch.linspace(0.1, 1, 16).view(4, 4).requires_grad_()
                results = compile(fn)(x)
                with torch.no_grad():
                    results[0][0:1].mul_(2)
                try:
                    results[read].sum().backward()
                except RuntimeError as error:
                    found[name, later.__name__, read] = str(error)[:60]
                else:
                    found[name, later.__name__, read] = x.grad
    return found


# parts of a value whose history they don't have, and what is computed of the value
WITHOUT_HISTORY: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "saved by the formula": lambda y: (y.detach()[1:], y.sin()),
    "saved by two": lambda y: (y.detach().t(), y.square(), y.sin()),
    "read by none": lambda y: (y.detach()[1:], y.exp().sum(), (y * 2).sin()),
    "read by one": lambda y: (y.detach()[:, 1:], y.exp(), y.cos()),
    "read by what it is computed from": lambda y: (y.detach().view(-1)[3:], y * 3, (y * 2 + 1).sigmoid()),
}


@program("", "a returned part of a value without its history is written, and passes read the value, or what it is computed from")
def parts_without_history(compile):
    found = {}
    for name, parts in WITHOUT_HISTORY.items():
        for first in (torch.exp, lambda t: t.cumsum(0), lambda t: t * 2):
            fn = compile(lambda x, first=first, parts=parts: parts(first(x)))
            for read in range(1, len(parts(torch.ones(3, 3)))):
                x = torch.linspace(0.1, 1, 9).view(3, 3).requires_grad_()
                results = fn(x)
                results[0].mul_(2)
                try:
                    results[read].sum().backward()
                except RuntimeError as error:
                    found[name, first, read] = str(error)[:60]
                else:
                    found[name, first, read] = x.grad
    return list(found.values())


def _pulled(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    return lambda x, w: torch.func.vjp(function, w)[1](x)[0]


# what is saved for a gradient that nobody needs
FOR_NOBODY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "softmax": _pulled(lambda t: torch.softmax(t, -1)),
    "log_softmax": _pulled(lambda t: torch.log_softmax(t, -1)),
    "tanh": _pulled(torch.tanh),
    "gelu": _pulled(torch.nn.functional.gelu),
    "elu": _pulled(torch.nn.functional.elu),
    "relu": _pulled(torch.relu),
    "layer_norm": _pulled(lambda t: torch.nn.functional.layer_norm(t, (3,))),
    "of a view": lambda x, w: _pulled(torch.tanh)(x.t(), w),
    "of a value": lambda x, w: _pulled(torch.tanh)(x * 1.0, w),
    "tangents": lambda x, w: torch.func.jvp(torch.sigmoid, (w,), (x,))[1],
    "tangents, written inside": lambda x, w: torch.func.jvp(lambda t: torch.sigmoid(t).clone().mul_(2), (w,), (x,))[1],
    "convolution": lambda x, w: torch.nn.functional.conv2d(x[None, None], w[None, None, :2, :2]),
    "product": lambda x, w: x @ w,
    "multiplied": lambda x, w: x * w,
    "cubes": lambda x, w: torch.func.vjp(lambda t: t**3, w)[1](x)[0].square(),
}


@program("", "arguments and results that autograd saves for a gradient that nobody needs are written")
def saved_for_nobody(compile):
    def before(x, w, fn):
        return fn(x, w)

    def behind(x, w, fn):
        y = x.exp()
        return y, fn(y, w), y.sum()

    found = {}
    f, g = compile(before), compile(behind)
    for name, fn in FOR_NOBODY.items():
        for written in ("x", "w", "y"):
            for read in (0, 1, 2):
                x, w = torch.linspace(0.1, 1, 9).view(3, 3).requires_grad_(), torch.linspace(1, -1, 9).view(3, 3)
                results = [f(x, w, fn)] if written != "y" else g(x, w, fn)
                with torch.no_grad():
                    {"x": x, "w": w, "y": results[0]}[written].mul_(2)
                found[name, written, read] = _gradient_or_error(results[read % len(results)], x)
    return found


@program("", "what is computed from no tangent, and a result that is kept for no formula, are read by no other result's pass")
def written_beside_zeros(compile):
    bodies = {
        "hessian": lambda x, y: torch.func.hessian(lambda s: torch.where(s**2 > 0, s**2, s).sum())(y)[1, 0],
        "hessian of deviations": lambda x, y: torch.func.hessian(lambda s: ((s - x.mean()) ** 2).sum())(x)[1, 0],
        "tangents": lambda x, y: torch.func.jvp(lambda s: torch.where(s > 0, s, y).sin(), (x @ y,), (x,))[1],
        "jacfwd": lambda x, y: torch.func.jacfwd(lambda s: s**2 * y)(x)[0, 1],
        "twice": lambda x, y: torch.where(x > 0.3, x, y).sin() + (y + 1).cos(),
    }
    found = {}
    for name, body in bodies.items():
        for dtype in (None, torch.bfloat16):
            for written in (0, 1, 2):

                @compile
                def f(x, body=body):
                    y = x * 1.0
                    return y, body(x, y)

                x = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
                with torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None):
                    results = f(x)
                for read in (0, 1):
                    with torch.no_grad():
                        (*results, x)[written].mul_(2)
                    try:
                        results[read].sum().backward(retain_graph=True)
                    except RuntimeError as error:
                        found[name, dtype, written, read] = str(error)[:60]
                    else:
                        found[name, dtype, written, read] = x.grad.clone()
    return found


PARTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one of a split": lambda t: t.split(2, 0)[-1],
    "one of unbind": lambda t: t.unbind(0)[1],
    "one of chunk": lambda t: t.chunk(2, 1)[0],
    "a row": lambda t: t[1],
}


@program("", "what a derivative reads is a view whose base is written inside, which is found when the backward pass asks for it")
def read_views_of_what_is_written(compile):
    found = []
    for name, part in PARTS.items():
        for second in (False, True):

            def f(x, part=part, second=second):
                base = x * 2
                view = part(base)
                read = view.sin()
                base.mul_(3)
                return (read, base.sum() + x.exp().sum()) if second else (read,)

            f.__code__ = f.__code__.replace(co_name=f"{name} {second}")
            x = torch.arange(12.0).reshape(4, 3).requires_grad_()
            results = compile(f)(x)
            for result in reversed(results):
                try:
                    result.sum().backward(retain_graph=True)
                except RuntimeError as error:
                    found.append(str(error)[:120])
            found.append((name, results, x.grad))
    return found


def _doubled(t: torch.Tensor) -> torch.Tensor:
    return t.mul_(2)


def _doubled_in_part(t: torch.Tensor) -> torch.Tensor:
    t[0].mul_(2)
    return t


def _doubled_without_history(t: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        t.mul_(2)
    return t


OWN_WRITES = {"whole": _doubled, "a part": _doubled_in_part, "under no_grad": _doubled_without_history}
READS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "read": lambda t: (t.sin(),),
    "its result is read": lambda t: (t.exp(),),
    "not read": lambda t: (t * 3,),
    "by one of two": lambda t: (t.sin(), t * 3),
}


@program("", "what the function has written to its argument, and a derivative reads, is written once more by the caller")
def written_inside_and_afterwards(compile):
    found = []
    for write_name, write in OWN_WRITES.items():
        for read_name, read in READS.items():
            for again in (False, True):

                def f(x, write=write, read=read):
                    return read(write(x))

                f.__code__ = f.__code__.replace(co_name=f"{write_name} {read_name}")
                leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
                x = leaf if write is _doubled_without_history else leaf * 1
                results = compile(f)(x)
                said = []
                for keeps in (True, False, False):
                    if again:
                        x.detach().mul_(2)
                    for result in reversed(results):
                        try:
                            result.sum().backward(retain_graph=keeps)
                        except RuntimeError as error:
                            said.append(str(error)[:60])
                dropped = weakref.ref(x)
                del x, result, results
                found.append((write_name, read_name, again, said, leaf.grad, dropped() is None or dropped() is leaf))
    return found


@program("", "the argument of a checkpoint that no gradient comes from is written before the pass")
def checkpoints_beside_the_result(compile):
    def unused(x):
        checkpoint(lambda s: s.cumsum(-1).exp(), x, use_reentrant=False)
        return ((x / 64).cos().exp(),)

    def without_gradients(x):
        with torch.no_grad():
            y = checkpoint(lambda s: s.sin().exp(), x, use_reentrant=False)
        return (x / 64).cos() * 2, y

    def of_another_value(x):
        y = checkpoint(lambda s: F.dropout(s.exp(), 0.5), x.detach(), use_reentrant=False)
        return (x / 64).cos().sin(), y + 1

    found = []
    for fn in (unused, without_gradients, of_another_value):
        leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
        x = leaf * 1
        results = compile(fn)(x)
        x.detach().mul_(2)
        results[0].sum().backward()
        found.append((results, leaf.grad, x))
    return found


def _kept_arguments(reentrant: bool) -> dict[str, Callable[[torch.Tensor, torch.Tensor], object]]:
    def again(body: Callable[..., torch.Tensor], *args: torch.Tensor) -> torch.Tensor:
        return checkpoint(body, *args, use_reentrant=reentrant)

    def accumulated(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = x * 2
        h += again(torch.exp, h)
        return h

    def result_cleared(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = again(lambda s: torch.softmax(s, -1), x)
        y.diagonal().zero_()
        return y.sqrt()

    def two_results(x: torch.Tensor, w: torch.Tensor) -> object:
        y, z = checkpoint(lambda s, t: (s.exp(), (s * t).sigmoid()), x, w, use_reentrant=reentrant)
        y += z
        return y, z

    def written_here(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = again(lambda s, t: s * t, x, w)
        w.add_(1)
        return y

    return {
        "read": lambda x, w: again(lambda s, t: s * t, x, w),
        "nothing saved": lambda x, w: again(lambda s, t: s + t, x, w),
        "not used": lambda x, w: again(lambda s, t: s.exp(), x, w),
        "from outside": lambda x, w: again(lambda s: s * 2 + s.exp(), x),
        "in another": lambda x, w: again(lambda s, t: again(torch.exp, s) + t, x, w),
        "views": lambda x, w: again(lambda s, t: s.cos(), x[1:], w[1:]),
        "of values": lambda x, w: again(lambda s, t: s.cos() * t, x * 2, w.cos()),
        "returned too": lambda x, w: (x * 2 + again(lambda s, t: s * t, x, w), x * 3),
        "accumulated": accumulated,
        "result written": lambda x, w: again(lambda s, t: (s * t).exp(), x, w).add_(1),
        "result cleared": result_cleared,
        "a view of it": lambda x, w: again(torch.relu, x * w)[0].mul_(2),
        "two results": two_results,
        "read outside": lambda x, w: (lambda y: y * y.sin())(again(torch.tanh, x)),
        "written here": written_here,
    }


@program("", "arguments and results of a checkpoint are written before the pass, and inside the function")
def kept_for_running_again(compile):
    found = []
    for reentrant in (False, True):
        for name, fn in _kept_arguments(reentrant).items():
            fn.__code__ = fn.__code__.replace(co_name=f"kept_{name.replace(' ', '_')}_{reentrant}")
            compiled = compile(fn)
            for written in (None, "x", "w", "result"):
                leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
                x, w = leaf * 1, torch.ones(2, 3)
                results = compiled(x, w)
                results = results if isinstance(results, tuple) else (results,)
                if written is not None:
                    {"x": x, "w": w, "result": results[0]}[written].detach().mul_(2)
                found.append([_pass(r, leaf) for r in results])
    return found


def _pass(result: torch.Tensor, leaf: torch.Tensor) -> object:
    leaf.grad = None
    try:
        result.sum().backward(retain_graph=True)
    except RuntimeError as error:
        return str(error)[:60]
    return leaf.grad


_OF_LISTS: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "scaled": lambda p, q: torch._foreach_mul_([p], 2.0),
    "averaged": lambda p, q: torch._foreach_lerp_([p, q], [q, p], 0.5),
    "copied": lambda p, q: torch._foreach_copy_([p], [q]),
    "cleared": lambda p, q: torch._foreach_zero_([p]),
    "twice": lambda p, q: torch._foreach_add_([p, p], 1.0),
    "a part": lambda p, q: torch._foreach_mul_([p[1:]], 2.0),
    "after another": lambda p, q: (p.mul_(2), torch._foreach_neg_([p]))[0],
    "into a list": lambda p, q: torch.split_copy(q, 1, out=[p[:1], p[1:2], p[2:]]),
    "behind autograd": lambda p, q: torch._amp_foreach_non_finite_check_and_unscale_([p], q[:1] * 0, q[:1]),
    "what was computed": lambda p, q: torch._foreach_mul_([p * 1], 2.0),
    "and a view of it": lambda p, q: torch._foreach_mul_([p.view(3, 1), p], 2.0),
    "parts that meet": lambda p, q: torch._foreach_mul_([p[:2], q, p[1:]], 2.0),
    "parts that don't": lambda p, q: torch._foreach_mul_([p[:1], q, p[1:]], 2.0),
    "read later": lambda p, q: torch._foreach_add_([p[:1], q[:1]], [q[1:2], p[:1]]),
    "of itself": lambda p, q: torch._foreach_add_([p, q], [p, q]),
}


@program("", "tensors in lists are written between a function and its backward pass, as foreach optimizers and averages do")
def lists_of_tensors(compile):
    found = []
    for name, fn in _OF_LISTS.items():
        fn.__code__ = fn.__code__.replace(co_name=f"of_lists_{name.replace(' ', '_')}")
        p, q, leaf = torch.ones(3), torch.ones(3) * 2, torch.ones(3, requires_grad=True)
        y = (leaf * p).sum() + (leaf * q).sum() * 2
        with torch.no_grad():
            compile(fn)(p, q)
        found.append((name, p, q, p._version, q._version, _pass(y, leaf)))
    return found


class Unread(torch.autograd.Function):
    """Saves what its backward never asks for."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Asked(Unread):
    """Its backward asks, and uses nothing of it."""

    @staticmethod
    def backward(ctx, grad):
        _, _ = ctx.saved_tensors
        return grad * 2


def _beside(made: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., object]:
    """A result, and a tangent at it, whose pass goes through what made it though no gradient comes of that."""

    def fn(x, w):
        y = made(x)
        return y, torch.func.jvp(lambda t: t * 3, (y,), (w[: y.shape[0]] + 1,))[1], y * 2

    return fn


_MADE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "softmax": lambda t: t.softmax(0),
    "in place": lambda t: (t * 1).sigmoid_(),
    "a view of it": lambda t: t.tanh().view(-1),
    "largest of rows": lambda t: t.view(2, 2).max(1)[0],
    "saves nothing": lambda t: t * 2,
    "unread": Unread.apply,
    "asked": Asked.apply,
}


@program("", "a pass goes through an operation that has saved its own result, which was written to, and needs no gradient of it")
def own_results(compile):
    found = []
    for name, made in _MADE.items():
        fn = _beside(made)
        for written in (None, 0, 1, 2):
            x, w = torch.ones(4, requires_grad=True), torch.arange(4.0)
            results = compile(fn)(x, w)
            if written is not None:
                results[written].detach().mul_(2)
            found.append((name, written, [_pass(r, x) for r in results if r.requires_grad]))
    return found


@program("", "functions of the program that ask for what they saved, or don't, and whose argument or result is written to")
def saved_by_functions(compile):
    found = []
    for function in (Unread, Asked):

        def fn(x, function=function):
            h = x * 1
            return h, function.apply(h), function.apply(h) * 2

        for written in range(3):
            x = torch.ones(3, requires_grad=True)
            results = compile(fn)(x)
            results[written].detach().mul_(2)
            found.append((function.__name__, written, [_pass(r, x) for r in results]))
    return found


@program("", "the result of a checkpoint is the argument of another one, and written to: only passes through that one ask for it")
def between_checkpoints(compile):
    second = {
        "drawn": lambda s, t: torch.rand_like(s) * (s.detach() + t),
        "product": lambda s, t: s.detach() * t,
        "sine": lambda s, t: t.sin(),
        "the other argument": lambda s, t: s.sin(),
        "a sum": lambda s, t: s + t * 2,
    }
    first = {"relu": lambda s: F.relu(s + 1), "exp": lambda s: s.exp(), "twice": lambda s: (s * 2).sigmoid() * 3}
    found = []
    for above, body in first.items():
        for below, other in second.items():

            def fn(x, body=body, other=other):
                y = checkpoint(body, x * 1, use_reentrant=False)
                z = checkpoint(other, x, y, use_reentrant=False)
                return y, z, y * z

            for written in (None, 0, 1, 2):
                torch.manual_seed(0)
                x = torch.linspace(-2.0, 2.0, 6).requires_grad_()
                results = compile(fn)(x)
                if written is not None:
                    results[written].detach().mul_(2)
                found.append((above, below, written, [_pass(r, x) for r in results]))
    return found
