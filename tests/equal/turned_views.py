"""Tensors that get another shape in place while views of them are in use, and their gradients."""

from __future__ import annotations

import contextlib
import itertools

import torch

from repro_corpus.program import program


def grown(*shape: int) -> torch.Tensor:
    n = int(torch.tensor(shape).prod())
    return torch.linspace(-1.0, 1.0, n).reshape(shape).clone().requires_grad_()


def passed_back(results, *leaves):
    sum((t * t).sum() for t in results if t.requires_grad).backward()
    return results, [leaf.grad for leaf in leaves], [(t.shape, t.stride(), t.requires_grad) for t in results]


@program("", "rows and a wider view of what is transposed")
def transposed(compile):
    @compile
    def f(x):
        y = x * 1
        v, w = y[1:], y.unsqueeze(0)
        z = y.t_()
        return v * 2, w.sin(), z + y, torch.tensor(float(z is y))

    x = grown(3, 4)
    return passed_back(f(x), x)


@program("", "a number that gets a dim, and a view that had it before")
def number(compile):
    @compile
    def f(x):
        y = x.sum()
        v = y.unsqueeze(0)
        y.unsqueeze_(0)
        return torch.cat([v, y, x[0]]), v * y

    x = grown(3, 4)
    return passed_back(f(x), x)


@program("", "several times, by method and by operator")
def again(compile):
    @compile
    def f(x):
        y = x * 1
        v = y[0]
        y.unsqueeze_(0)
        y.transpose_(0, 2)
        w = y[1]
        torch.ops.aten.squeeze_(y)
        y.swapaxes_(0, 1)
        return v * v, w * 3, y * 2

    x = grown(3, 4)
    return passed_back(f(x), x)


@program("", "writes to the tensor and to the view, after it turned")
def written(compile):
    @compile
    def f(x):
        y = x * 1
        v = y[1:]
        y.t_()
        y[0].mul_(2)
        v.add_(1)
        return v * y.t()[1:], y * 2

    x = grown(3, 4)
    return passed_back(f(x), x)


@program("", "the history comes after it turned")
def history_comes_later(compile):
    @compile
    def f(x):
        y = torch.ones(4, 3)
        v = y[0]
        y.t_()
        y.mul_(x)
        return v * 2, y * 3

    x = grown(3, 4)
    return passed_back(f(x), x)


@program("", "an argument turns")
def argument(compile):
    @compile
    def f(x):
        v = x.unsqueeze(0)
        x.unsqueeze_(0)
        return v * x, x.sin()

    leaf = grown(3, 4)
    x = leaf * 1
    return passed_back(f(x), leaf), x


@program("", "what is returned is the tensor, a view of it, or both")
def returned(compile):
    @compile
    def f(x):
        y, z, w = x * 1, x * 2, x * 3
        a, b, c = y[1:], z[1:], w[1:]
        y.t_(), z.t_(), w.t_()
        return y, a * 2, b, z * 2, w, c

    x = grown(3, 4)
    out = f(x)
    return passed_back(out, x), [[s.untyped_storage()._cdata == t.untyped_storage()._cdata for s in out] for t in out]


@program("", "part of the memory is left behind")
def left_behind(compile):
    @compile
    def f(x):
        y = x * 2
        v = y[1:]
        y.as_strided_((2, 2), (1, 2), 1)
        return y * 3, v * 2

    x = grown(3, 3)
    return passed_back(f(x), x)


@program("", "without gradients, and under no_grad")
def without_gradients(compile):
    @compile
    def f(x, p):
        y = x * 2
        v = y[1:]
        y.t_()
        with torch.no_grad():
            z = p * 1
            w = z[1:]
            z.t_()
        return v * 2, y, w * 2, z * p.t()

    p = grown(3, 4)
    return passed_back(f(torch.ones(3, 4), p), p)


@program("", "what was kept of it is written by then: a pass says so")
def kept(compile):
    @compile
    def f(x):
        y = x * 1
        z, v = y.sin(), y[1:]
        y.t_()
        return z + v.sum()

    x = grown(3, 4)
    try:
        f(x).sum().backward()
    except RuntimeError as e:
        return type(e).__name__, str(e)[:60], x.grad
    return x.grad


def _turned(y, z):
    rows = y[1:]
    y.t_()
    return y, z + rows.sum() * y[0]


def _squared(y, z):
    rows = y[1:]
    y.t_()
    return y, y.square() + rows.sum()


def _unread(y, z):
    rows = y[1:]
    y.t_()
    return y, (z * 2).sin() + rows.sum()


@program("", "the result is what turned; it is written before the pass, which may have read it")
def written_before_the_pass(compile):
    found = []
    for end in (_turned, _squared, _unread):

        def fn(x, end=end):
            return end(x * 2, x + 1)

        for write in (lambda t: t.detach().mul_(2), lambda t: t.detach()[0].zero_()):
            x = grown(3, 3)
            results = compile(fn)(x)
            write(results[0])
            try:
                results[1].sum().backward()
            except RuntimeError as e:
                found.append(str(e)[:60])
            found.append(x.grad)
    return found


def _before(x):
    rows = x[1:]
    x.t_()
    return rows.sum() * 2


def _read_after(x):
    x.t_()
    return (x * 2).sum()


def _read_before(x):
    y = x.detach().sum()
    x.unsqueeze_(0)
    return y * 2


@program("", "a leaf turns under no_grad, and what is computed of it there, or later, is returned")
def leaves(compile):
    found = []
    for body in (_before, _read_after, _read_before):
        for inside in (torch.no_grad, torch.enable_grad):
            for around in (torch.no_grad, torch.enable_grad):

                def fn(x, body=body, inside=inside):
                    with torch.no_grad():
                        y = body(x)
                    with inside():
                        return y, x * 3

                x = grown(3, 4)
                with around():
                    y, z = compile(fn)(x)
                if z.requires_grad:
                    z.sum().backward()
                found.append((y, z, x, x.grad, x._version, y.requires_grad, z.requires_grad))
    return found


@program("", "what autograd refuses to turn counts no write, nor does what was turned before an operator fails")
def refused(compile):
    @compile
    def turns(x):
        try:
            y = x * 1.0
            side = x[1:]
            x.t_()
            return y + side.sum() * x[0]
        except RuntimeError as error:
            return str(error)[:40]

    @compile
    def turns_back(x):
        side = x[1:]
        x.t_()
        x.t_()
        return side.sum() * x[0]

    @compile
    def turns_a_view(x):
        side = x[1:]
        side.t_()
        return side + x[1:].t()

    @compile
    def turns_apart(x):
        side = x.detach()
        side.t_()
        return side * 2

    @compile
    def fails(x):
        side = x[1:]
        x.t_()
        return torch.linalg.cholesky(x - 5) * side.sum()

    found = []
    for made in (lambda x: x.t(), lambda x: x.unbind()[0], lambda x: x * 1, lambda x: x.detach(), lambda x: x):
        for fn in (turns, turns_back, turns_a_view, turns_apart, fails):
            for around in (torch.no_grad, torch.enable_grad):
                x = made(grown(2, 3, 3) if made(grown(2, 3)).dim() == 1 else grown(3, 3))
                with around():
                    try:
                        found.append(fn(x))
                    except RuntimeError as error:
                        found.append(type(error).__name__)
                found.append((x._version, x.stride()))
    return found


MODES = {
    "around": (torch.enable_grad,),
    "inference": (torch.inference_mode,),
    "within inference": (torch.inference_mode, torch.enable_grad),
    "without": (torch.no_grad,),
}


@program("", "what needs a gradient is turned in modes within modes: in inference mode autograd records nothing, also under enable_grad")
def turned_in_modes(compile):
    found = []
    for (name, within), mode, kind in itertools.product(MODES.items(), (torch.enable_grad, torch.no_grad, torch.inference_mode), range(5)):

        @compile
        def f(x, within=within):
            with contextlib.ExitStack() as stack:
                for made in within:
                    stack.enter_context(made())
                x.t_()
            return x * 2

        x = torch.arange(6.0).view(2, 3).clone().requires_grad_()
        x = (x, x.detach().requires_grad_(), x * 1, x.detach().clone()[:].requires_grad_(), x[:])[kind]
        try:
            with mode():
                result = f(x)
            found.append((name, kind, result, result.requires_grad, x, x._version))
        except RuntimeError as error:
            found.append((name, kind, str(error)[:60], x.shape, x._version))
    return found


TURNED_AND_READ = {
    "row": lambda x, y: (y.t_(), x + y[0] * x.sum())[1],
    "view from before": lambda x, y: (y[1:], y.t_(), x + y.sum() * y[0])[2],
    "square": lambda x, y: (y.unsqueeze_(0), (y * y).sum())[1],
    "before": lambda x, y: (x * y[0], y.t_())[0],
    "sum": lambda x, y: (y.t_(), x + y.sum())[1],
}
SINCE = {
    "turned": lambda y: y.transpose_(0, 1),
    "written": lambda y: y.mul_(2),
    "detached": lambda y: y.detach().mul_(2),
    "without gradients": lambda y: torch.no_grad()(y.mul_)(2),
    "nothing": lambda y: None,
}
KINDS_OF_ARGUMENTS = {
    "view of a leaf": lambda a: a.view(9).view(3, 3),
    "computed": lambda a: a * 1,
    "view": lambda a: (a * 1)[:],
    "constant": lambda a: torch.ones(3, 3),
}


@program("", "arguments turn, and change again between the call and a pass that keeps them")
def turned_arguments_that_change(compile):
    found = []
    for (name, read), (how, since), (kind, made) in itertools.product(TURNED_AND_READ.items(), SINCE.items(), KINDS_OF_ARGUMENTS.items()):
        f = compile(read)
        a = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
        x, y = torch.ones(3, 3).requires_grad_(), made(a)
        try:
            result = f(x, y)
            since(y)
            result.sum().backward()
            found.append((x.grad, a.grad))
        except RuntimeError as error:
            found.append(str(error)[:30])
        found.append((name, how, kind, y, y._version))
    return found


CUT_OFF = {
    "argument": lambda x, w: x.detach(),
    "computed": lambda x, w: (w * 2).detach(),
    "part": lambda x, w: x[1:].detach(),
    "data": lambda x, w: (x * w).data,
    "factory": lambda x, w: torch.full((3, 3), 0.5),
}
TURNS = {
    "t_": lambda z: z.t_(),
    "twice": lambda z: z.unsqueeze_(0).transpose_(0, 2),
    "under no_grad": lambda z: torch.no_grad()(z.t_)(),
    "with a view": lambda z: (z[:1], z.t_())[1],
    "and viewed": lambda z: z.t_()[1:],
    "and detached": lambda z: z.t_().detach(),
}


@program("", "detached tensors that turn are views of nothing, also where what they are detached from is changed later")
def detached_tensors_that_turn(compile):
    found = []
    for (kind, cut_off), (how, turn), is_written in itertools.product(CUT_OFF.items(), TURNS.items(), (False, True)):

        @compile(fullgraph=True)
        def f(x, w, cut_off=cut_off, turn=turn, is_written=is_written):
            z = cut_off(x, w)
            made = turn(z)
            if is_written:
                torch.no_grad()(x.mul_)(2)
            return z, made

        x, w = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_(), torch.linspace(2, 3, 9).view(3, 3)
        z, made = f(x, w)
        found.append((kind, how, is_written, z, z._is_view(), made, made.is_set_to(z), x._version))
        if kind != "argument" and kind != "part":
            z.mul_(x.sum())  # a view from under `no_grad` would refuse
            found.append((z.requires_grad, z.is_leaf, torch.autograd.grad(z.sum(), x)))
    return found


@program("", "a view of an argument gets another shape, and eager saves the argument before it, or behind it")
def saved_around_a_turn(compile):
    def before(a, x):
        y = x * a
        a.view(-1).unsqueeze_(0)
        return y

    def behind(a, x):
        a.view(-1).unsqueeze_(0)
        return x * a

    def computed_from(a, x):
        b = a * 2
        a.view(-1).unsqueeze_(0)
        return x * b

    def empty_write(a, x):
        a[:0].zero_()
        return x * a, x.sin()

    seen = []
    for f in (before, behind, computed_from, empty_write):
        a, x = torch.arange(3.0), grown(3)
        results = compile(f, fullgraph=True)(a, x)
        seen.append(a._version)
        for y in results if isinstance(results, tuple) else (results,):
            try:
                seen += torch.autograd.grad(y.sum(), x, retain_graph=True)
            except RuntimeError as e:
                seen.append(str(e)[:60])
    return seen


@program("", "a turn of another argument of the same memory is a write to what is saved, and to a view without history")
def turned_through_another(compile):
    def saved(q, r):
        y = q * q
        r.t_()
        return y

    def behind(q, r):
        r.t_()
        return q * q

    def without_history(q, r):
        with torch.no_grad():
            z = q.narrow(0, 0, 1)
        r.t_()
        return z * 2

    def there_and_back(q, r):
        with torch.no_grad():
            z = q.narrow(0, 0, 1)
        r.t_()
        r.t_()
        return q * 2, z * 2

    def written(q, r):
        with torch.no_grad():
            z = q.narrow(0, 0, 1)
            r.mul_(2)
        return z * 2

    seen = []
    for f, detached in itertools.product((saved, behind, without_history, there_and_back, written), (False, True)):
        leaf = grown(3, 3)
        m = leaf * 1.5
        q, r = m[:1].expand(3, 3), (m.detach() if detached else m).t()
        try:
            results = compile(f)(q, r)
            seen += torch.autograd.grad(sum((t * t).sum() for t in (results if isinstance(results, tuple) else (results,))), leaf)
        except RuntimeError as e:
            seen.append(str(e)[:60])
        seen += [q._version, r.stride()]
    return seen


@program("", "which eager tells of one of several views, also where nothing uses what is computed from that")
def unused_behind_a_turn(compile):
    def viewed(p, r):
        z = p.exp()
        r.t_()
        v = p.view(-1)  # noqa: F841
        return z

    def computed(p, r):
        r.unsqueeze_(0)
        v = p * 2  # noqa: F841
        return r * 2

    seen = []
    for f in (viewed, computed):
        m = grown(3, 3) * 1.5
        try:
            seen.append(compile(f)(m.unbind()[1], m.t()))
        except RuntimeError as e:
            seen.append(str(e)[:60])
    return seen
