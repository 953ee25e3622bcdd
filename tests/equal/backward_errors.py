"""Errors that a backward pass raises: kind, message for the reader, and nothing left behind."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


def caught(call):
    try:
        call()
    except Exception as e:  # noqa: BLE001  # compared, whatever it is
        return type(e).__name__, str(e)[:60]
    return None


@program("", "anomaly mode finds a nan in the backward")
def anomaly(compile):
    f = compile(lambda x: (x.sqrt() * 0).sum())
    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        e = caught(lambda: f(x).backward())
    return e and e[0], x, torch.is_anomaly_enabled(), f(x)


@program("", "detect_anomaly around the backward alone, and check_nan=False")
def anomaly_backward_only(compile):
    f = compile(lambda x: (x / x).sum())
    x = torch.zeros(3, requires_grad=True)
    y = f(x)
    with torch.autograd.detect_anomaly():
        e = caught(lambda: y.backward(retain_graph=True))
    with torch.autograd.detect_anomaly(check_nan=False):
        d = caught(y.backward)
    return e and e[0], d, x, torch.is_anomaly_enabled()


@program("", "anomaly mode inside the compiled function")
def anomaly_inside(compile):
    @compile
    def f(x):
        with torch.autograd.detect_anomaly():
            y = (x.sqrt() * 0).sum()
            y.backward()
        return y

    x = torch.zeros(3, requires_grad=True)
    e = caught(lambda: f(x))
    return e and e[0], x, torch.is_anomaly_enabled()


@program("", "a hook on an input raises")
def hook_on_input(compile):
    f = compile(lambda x: (x.sin() * torch.rand(3)).sum())
    x = torch.ones(3, requires_grad=True)

    def hook(g):
        raise KeyError("from the hook")

    h = x.register_hook(hook)
    e = caught(lambda: f(x).backward())
    h.remove()
    f(x).backward()
    return e, x, torch.rand(2)


@program("", "a hook registered inside raises")
def hook_inside(compile):
    @compile
    def f(x, fails):
        y = x * 2

        def hook(g):
            if fails:
                raise ValueError("from the hook")
            return g * 2

        y.register_hook(hook)
        return (y * y).sum()

    x = torch.ones(3, requires_grad=True)
    e = caught(lambda: f(x, True).backward())
    f(x, False).backward()
    return e, x


@program("", "a hook on a result raises, and on its node")
def hook_on_result(compile):
    f = compile(lambda x: x * x)
    x = torch.ones(3, requires_grad=True)

    def hook(*g):
        raise OSError("from the hook")

    y = f(x)
    y.register_hook(hook)
    a = caught(lambda: y.sum().backward())
    z = f(x)
    z.grad_fn.register_prehook(hook)
    b = caught(lambda: z.sum().backward())
    w = f(x)
    w.grad_fn.register_hook(hook)
    c = caught(lambda: w.sum().backward())
    f(x).sum().backward()
    return a, b, c, x


@program("", "a hook that returns the wrong thing")
def hook_wrong_result(compile):
    f = compile(lambda x: x * x)
    x = torch.ones(3, requires_grad=True)
    out = []
    for wrong in (1, torch.ones(2), "no"):
        h = x.register_hook(lambda g, wrong=wrong: wrong)
        e = caught(lambda: f(x).sum().backward())
        out.append(e and e[0])
        h.remove()
    return out, x


@program("", "a post-accumulate hook raises: the gradient is there")
def post_accumulate(compile):
    m = nn.Linear(2, 2)
    c = compile(m)

    def hook(p):
        raise RuntimeError("enough")

    h = m.weight.register_post_accumulate_grad_hook(hook)
    e = caught(lambda: c(torch.ones(1, 2)).sum().backward())
    h.remove()
    c(torch.ones(1, 2)).sum().backward()
    return e, m.weight


@program("", "a module's backward hook raises")
def module_hook(compile):
    m = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))

    def hook(module, gi, go):
        raise ArithmeticError("from the module")

    h = m[1].register_full_backward_hook(hook)
    c = compile(m)
    x = torch.ones(1, 2, requires_grad=True)
    e = caught(lambda: c(x).sum().backward())
    h.remove()
    c(x).sum().backward()
    return e, x, list(m.parameters())


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kind):
        ctx.kind = kind
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ctx.kind("in backward")


@program("", "a custom function's backward raises")
def custom_backward(compile):
    @compile
    def f(x):
        return Fails.apply(x.sin(), ZeroDivisionError).sum()

    x = torch.ones(3, requires_grad=True)
    return caught(lambda: f(x).backward()), caught(lambda: f(x).backward()), x


@program("", "a custom function's backward raises under no_grad, autocast and a seed of its own")
def custom_backward_modes(compile):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            torch.set_default_dtype(torch.float64)
            try:
                with torch.enable_grad(), torch.autocast("cpu"):
                    torch.rand(3)
                    raise LookupError("in backward")
            finally:
                torch.set_default_dtype(torch.float32)

    @compile
    def f(x):
        return Bad.apply(x.sin()).sum()

    x = torch.ones(3, requires_grad=True)
    return caught(lambda: f(x).backward()), torch.is_grad_enabled(), torch.rand(2)


@program("", "a custom function gives too many gradients, or of a wrong shape")
def custom_wrong_gradients(compile):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, how):
            ctx.how = how
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.how == "many":
                return g, None, g
            if ctx.how == "shape":
                return torch.ones(7), None
            if ctx.how == "type":
                return "no", None
            return g, None

    f = compile(lambda x, how: Wrong.apply(x.sin(), how).sum())
    out = []
    x = torch.ones(3, requires_grad=True)
    for how in ("many", "shape", "type", "right"):
        e = caught(lambda how=how: f(x, how).backward())
        out.append(e and e[0])
    return out, x


@program("", "a singular matrix in backward")
def fails_in_backward(compile):
    @compile
    def f(x):
        return torch.linalg.matrix_exp(x).sum(), torch.linalg.svd(x)[0].sum()

    x = torch.zeros(3, 3, requires_grad=True)
    a, b = f(x)
    return caught(lambda: (a + b).backward()), x


@program("", "eigenvectors whose gradient is not defined")
def eig_backward(compile):
    f = compile(lambda x: torch.linalg.eig(x)[1].abs().sum() + torch.linalg.eig(x)[1].real.sum())
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    e = caught(lambda: f(x).backward())
    return e and e[0], x


@program("", "an op without a derivative")
def no_derivative(compile):
    f = compile(lambda x, y: torch.nextafter(x, y).sum())
    x, y = torch.ones(3, requires_grad=True), torch.zeros(3)
    e = caught(lambda: f(x, y).backward())
    return e and e[0], x


@program("", "a gradient of a wrong shape or type is given")
def wrong_gradient(compile):
    f = compile(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    y = f(x)
    out = [
        caught(lambda: y.backward()),
        caught(lambda: y.backward(torch.ones(2))),
        caught(lambda: torch.autograd.grad(y.sum(), torch.ones(3))),
        caught(lambda: torch.autograd.grad(f(x).sum(), torch.ones(3, requires_grad=True))),
    ]
    f(x).sum().backward()
    return [o and o[0] for o in out], x


@program("", "a saved input was written in the meantime: the message names it")
def written_meanwhile(compile):
    f = compile(lambda x, w: (x * w).sum())
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    y = f(x, w)
    x.mul_(2)
    e = caught(y.backward)
    f(x, w).backward()
    return e, w


@program("", "a tensor hook raises in a training step that goes on after it")
def goes_on(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
    opt = torch.optim.SGD(m.parameters(), 0.1)
    fails = [False, True, False]
    it = iter(fails)

    def hook(g):
        if next(it):
            raise RuntimeError("skip this step")

    m[0].weight.register_hook(hook)
    c = compile(m)
    out = []
    for _ in fails:
        opt.zero_grad()
        loss = c(torch.ones(2, 3)).sum()
        try:
            loss.backward()
        except RuntimeError as e:
            out.append(str(e))
            continue
        opt.step()
    return out, list(m.parameters()), torch.rand(2)


@program("", "backward called inside the function raises, and is caught inside")
def caught_inside(compile):
    @compile
    def f(x):
        y = Fails.apply(x, ValueError).sum()
        try:
            y.backward()
        except ValueError as e:
            return x * 3, str(e)
        return x, ""

    x = torch.ones(3, requires_grad=True)
    return f(x), f(x), x


@program("", "a checkpointed region fails when computed again")
def checkpoint_fails(compile):
    calls = []

    def body(x):
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("second time")
        return x.sin().exp()

    def f(x):
        return torch.utils.checkpoint.checkpoint(compile(body), x, use_reentrant=False).sum()

    x = torch.ones(3, requires_grad=True)
    return caught(lambda: f(x).backward()), x, len(calls)


@program("", "pack and unpack hooks that raise")
def saved_hooks(compile):
    f = compile(lambda x: (x.sin() * x).sum())
    x = torch.ones(3, requires_grad=True)

    def fails(t):
        raise BufferError("unpack")

    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, fails):
        y = f(x)
    a = caught(y.backward)

    def pack(t):
        raise BufferError("pack")

    def run():
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            f(x)

    b = caught(run)
    f(x).backward()
    return a, b, x


@program("", "KeyboardInterrupt and SystemExit from a backward")
def base_exceptions(compile):
    f = compile(lambda x, kind: Fails.apply(x.sin(), kind).sum())
    out = []
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        x = torch.ones(3, requires_grad=True)
        y = f(x, kind)
        try:
            y.backward()
        except BaseException as e:  # noqa: BLE001  # compared, whatever it is
            out.append((type(e).__name__, str(e), x.grad))
    return out


@program("", "a checked index fails in backward's recomputation only")
def device_assert_in_backward(compile):
    class Check(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, i):
            ctx.save_for_backward(i)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            (i,) = ctx.saved_tensors
            return g.index_select(0, i), None

    f = compile(lambda x, i: Check.apply(x * 2, i).sum())
    x = torch.ones(3, requires_grad=True)
    e = caught(lambda: f(x, torch.tensor([0, 1, 9])).backward())
    f(x, torch.tensor([2, 1, 0])).backward()
    return e and e[0], x


@program("", "a dispatch mode of the program raises in backward")
def dispatch_mode_raises(compile):
    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "cos" in str(func):
                raise PermissionError("no cosines")
            return func(*args, **(kwargs or {}))

    f = compile(lambda x: x.sin().sum())
    x = torch.ones(3, requires_grad=True)
    y = f(x)

    def run():
        with Mode():
            y.backward()

    e = caught(run)
    f(x).backward()
    return e, x, torch._C._len_torch_dispatch_stack()


def one_by_one(results, order):
    said = []
    for i in order:
        try:
            results[i].sum().backward(retain_graph=True)
            said.append("ran")
        except RuntimeError as e:
            said.append(str(e)[:80])
    return said


@program("", "a backward that fails for one result and works for another")
def fails_for_one_result(compile):
    @compile
    def of_the_other(x):
        y = x.sin()
        z = y.sin()
        y.mul_(2)
        return y, z

    @compile
    def of_itself(x):
        y = x * 1.0
        z = F.relu(x)
        z.mul_(2)
        return y, z, z + 1

    @compile
    def two_fail(x):
        y, z = x.exp(), x.sigmoid()
        a, b = y * z, z.cos()
        y.add_(1)
        z.add_(1)
        return x.tanh(), a, b

    @compile
    def no_formula(x):
        return x.sin(), torch.nextafter(x, x + 1)

    found = []
    for f, count in ((of_the_other, 2), (of_itself, 3), (two_fail, 3), (no_formula, 2)):
        for first in range(count):
            x = torch.ones(3, requires_grad=True)
            results = f(x)
            said = one_by_one(results, [first, *range(count)])
            found.append((said, x.grad, [r.detach() for r in results]))
    return found


@program("", "one pass from a result whose backward fails and one whose backward works")
def fails_in_one_pass(compile):
    @compile
    def f(x):
        y = x.sin()
        z = y.sin()
        y.mul_(2)
        return y, z, x.exp()

    found = []
    for pair in ((0, 1), (2, 1), (0, 2)):
        x = torch.ones(3, requires_grad=True)
        results = f(x)
        found.append((caught(lambda: sum(results[i].sum() for i in pair).backward()), x.grad))
    x = torch.ones(3, requires_grad=True)
    _, z, w = f(x)
    (g,) = torch.autograd.grad(w.sum(), x, create_graph=True)
    g.sum().backward()
    return found, x.grad, caught(lambda: z.sum().backward())


@program("", "a derivative that negates a bool, which only the backward refuses")
def negated_bool(compile):
    @compile
    def f(x):
        high = x > 0
        return torch.atan2(high, x + 2)

    x = torch.tensor([0.3, -1.0], requires_grad=True)
    y = f(x)
    try:
        y.sum().backward()
    except RuntimeError as e:
        return y, str(e)[:40]
    return y, x.grad


@program("", "of several results whose backward fails, that error is raised which eager meets first: the one of the latest operation")
def first_of_several_errors(compile):
    def one(x):
        y = x.cos()
        early, late = y.sin(), y.exp()
        y.mul_(2)
        return early, late, torch.floor_divide(x, 2.0), torch.nextafter(x, x + 1)

    def other(x):
        low = torch.nextafter(x, x)
        return low * 2, torch.floor_divide(-low, 3.0), torch.igammac(x.abs(), x.abs()), x * 1

    found = []
    for body in (one, other):
        f = compile(body)
        for chosen in ((0,), (1,), (2,), (3,), (0, 1), (1, 0), (0, 2), (2, 3), (3, 1), (0, 3), (0, 1, 2, 3), (3, 2, 1, 0)):
            x = torch.ones(3, requires_grad=True)
            results = f(x)
            found.append((body.__name__, chosen, caught(lambda: torch.autograd.backward([results[i].sum() for i in chosen])), x.grad))
    return found


@program("", "the gradient of view_as_real begins at an odd place of a dense one, which only the backward refuses")
def odd_place(compile):
    @compile(fullgraph=True)
    def f(x, s):
        z = torch.complex(x, x * 2)
        return torch.hstack([s, torch.view_as_real(z[0])]), torch.cat([s[None], torch.view_as_real(z * z).flatten(), s[None]]), z.abs() * s

    seen = []
    for which in (0, 1, 2):
        x, s = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(3.0, requires_grad=True)
        out = f(x, s)
        seen += [out, caught(lambda: out[which].backward(torch.ones(out[which].shape))), x.grad]
    return seen


@program("", "the gradient of view_as_real begins at an even place")
def even_place(compile):
    @compile(fullgraph=True)
    def f(x, s):
        z = torch.complex(x, x * 2)
        return torch.hstack([s, s, torch.view_as_real(z[0])]), torch.cat([torch.view_as_real(z * z).flatten(), s[None]])

    x, s = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(3.0, requires_grad=True)
    out = f(x, s)
    torch.autograd.backward(out, [torch.rand(4), torch.rand(5)])
    return out, x, s
