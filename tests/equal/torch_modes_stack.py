"""Dispatch and function modes of the program: active at the call, entered inside, around the backward pass."""

from __future__ import annotations

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from repro_corpus.program import program


class Logged(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.sin else out


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@program("", "a dispatch mode active at the call sees every op, at the first call and later")
def dispatch_mode_around(compile):
    f = compile(lambda x: (x.sin() + x.cos()).sum())
    x = torch.rand(3)
    seen = []
    for _ in range(2):
        with Logged() as mode:
            y = f(x)
        seen.append(mode.ops)
    return seen, y, f(x)


@program("", "compiled before, then called under a dispatch mode")
def dispatch_mode_after_compile(compile):
    f = compile(lambda x: (x.sin() + x.cos()).sum())
    x = torch.rand(3)
    f(x)
    with Logged() as mode:
        f(x)
    return mode.ops, f(x)


@program("", "a dispatch mode around forward and backward")
def dispatch_mode_training(compile):
    m = nn.Linear(3, 2)
    c = compile(m)
    x = torch.rand(2, 3)
    with Logged() as mode:
        c(x).sum().backward()
    return sorted(mode.ops), list(m.parameters())


@program("", "a dispatch mode around the backward pass alone")
def dispatch_mode_backward(compile):
    f = compile(lambda x: (x.sin() * x).sum())
    x = torch.rand(3, requires_grad=True)
    y = f(x)
    with Logged() as mode:
        y.backward()
    return [op for op in mode.ops if "cos" in op], x


@program("", "a dispatch mode entered inside")
def dispatch_mode_inside(compile):
    @compile
    def f(x):
        y = x * 2
        with Logged() as mode:
            y = y.sin()
        return y + 1, mode.ops

    return f(torch.rand(3))


@program("", "a dispatch mode made outside and entered inside")
def dispatch_mode_given(compile):
    mode = Logged()

    @compile
    def f(x, m):
        with m:
            y = x.sin() + 1
        return y * 2

    out = f(torch.rand(3), mode), f(torch.rand(3), mode)
    return out, mode.ops


@program("", "a dispatch mode that changes results")
def dispatch_mode_changing(compile):
    class Zero(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return torch.zeros_like(out) if func is torch.ops.aten.sin.default else out

    f = compile(lambda x: x.sin() + 1)
    x = torch.rand(3)
    a = f(x)
    with Zero():
        b = f(x)
    return a, b, f(x)


@program("", "counting floating-point operations of a compiled model")
def flop_counter(compile):
    m = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    c = compile(m)
    x = torch.rand(2, 8)
    c(x)
    with FlopCounterMode(display=False) as counter:
        c(x).sum().backward()
    return counter.get_total_flops()


@program("", "a function mode active at the call")
def function_mode_around(compile):
    f = compile(lambda x: torch.sin(x) + 1)
    x = torch.rand(3)
    a = f(x)
    with Doubling():
        b = f(x)
        c = f(x)
    return a, b, c, f(x)


@program("", "a function mode sees the calls the program makes and no others")
def function_mode_calls(compile):
    f = compile(lambda x: torch.sin(x).add(1).reshape(-1))
    seen = []
    for _ in range(2):
        with Calls() as mode:
            f(torch.ones(3))
        seen.append(mode.names)
    return seen


@program("", "a function mode entered inside")
def function_mode_inside(compile):
    @compile
    def f(x):
        y = torch.sin(x)
        with Doubling():
            z = torch.sin(x)
        return y, z, torch.sin(z)

    return f(torch.rand(3))


@program("", "a function mode made outside and entered inside, with a break in the block")
def function_mode_given(compile):
    mode = Doubling()

    @compile
    def f(x):
        with mode:
            y = torch.sin(x)
            print("here")
            y = torch.sin(y)
        return torch.sin(y)

    return f(torch.rand(3)), f(torch.rand(3))


@program("", "two modes of both kinds at once")
def nested_modes(compile):
    f = compile(lambda x: torch.sin(x) * 2)
    with Logged() as mode, Doubling():
        y = f(torch.rand(3))
    return y, mode.ops


@program("", "DisableTorchFunction around a call and inside")
def disabled_torch_function(compile):
    @compile
    def f(x):
        with torch._C.DisableTorchFunction():
            y = torch.sin(x)
        return y + torch.sin(x)

    with Doubling():
        return f(torch.rand(3))


@program("", "torch.device and set_default_device are modes as well")
def device_mode(compile):
    f = compile(lambda: torch.ones(2) * 2)
    a = f()
    with torch.device("meta"):
        b = f().device
    torch.set_default_device("meta")
    c = f().device
    torch.set_default_device(None)
    return a, b, c, f()


@program("", "a mode that raises")
def dispatch_mode_raising(compile):
    class No(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise ValueError(str(func))

    f = compile(lambda x: x.sin())
    f(torch.ones(2))
    try:
        with No():
            f(torch.ones(2))
    except ValueError as e:
        return str(e), f(torch.ones(2))
    return "nothing"


@program("", "first compile under a mode: its internals stay unseen, also with breaks")
def dispatch_mode_first_call_breaks(compile):
    @compile
    def f(x):
        y = x.sin()
        print(1)
        if y.sum() > 0:
            y = y + 1
        return y.tolist()

    with Logged() as mode:
        f(torch.ones(2))
    return mode.ops


@program("", "saved tensor hooks entered inside")
def saved_tensors_hooks_inside(compile):
    @compile
    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t * 2):
            y = x * x
        return y.sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    return x


@program("", "save_on_cpu and disable_saved_tensors_hooks inside")
def save_on_cpu(compile):
    @compile
    def f(x):
        with torch.autograd.graph.save_on_cpu():
            y = x.sin() * x
        return y.sum()

    x = torch.ones(3, requires_grad=True)
    f(x).backward()
    return x


@program("", "anomaly mode around and inside")
def anomaly_mode(compile):
    @compile
    def f(x):
        return (x.sqrt() * 0).sum()

    x = torch.zeros(2, requires_grad=True)
    try:
        with torch.autograd.set_detect_anomaly(True):
            f(x).backward()
    except RuntimeError as e:
        return type(e)
    return x


@program("", "a whole training step under a mode, compiled before")
def training_step_under_mode(compile):
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    c = compile(m)
    opt = torch.optim.SGD(m.parameters(), lr=0.1)
    c(torch.ones(1, 2))
    with Logged() as mode:
        c(torch.ones(1, 2)).sum().backward()
        opt.step()
        opt.zero_grad()
    return sorted(mode.ops), list(m.parameters())


@program("", "a function mode entered and left by hand")
def mode_by_hand(compile):
    @compile
    def f(x):
        mode = Doubling()
        mode.__enter__()
        y = torch.sin(x)
        mode.__exit__(None, None, None)
        return y, torch.sin(x)

    return f(torch.ones(2)), torch._C._len_torch_function_stack()


@program("", "a mode sees the backward passes of results one after the other, and nothing that eager doesn't do")
def passes_one_after_the_other(compile):
    bodies = {
        "apart": lambda x, w: ((x * 2).relu().sum(), ((x @ w).exp() * x).sum()),
        "one of another": lambda x, w: ((x * w).exp().sum(), (x * w).exp().sum() * 2),
        "one": lambda x, w: ((x @ w).sin().sum(),),
    }
    found = {}
    for name, body in bodies.items():
        for options in ({}, {"create_graph": True}, {"retain_graph": True}):
            f = compile(body)
            x, w = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_(), torch.ones(3, 3, requires_grad=True)
            for result in f(x, w):
                with Logged() as logged, Calls() as calls:
                    result.backward(**options)
                found[name, str(options), len(found)] = logged.ops, calls.names
                x.grad = w.grad = None
                result = f(x, w)[-1]
                with Logged() as logged:
                    given = torch.autograd.grad(result, (x, w), **options)
                found[name, str(options), len(found)] = logged.ops, given
    return found


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@program("", "torch asks a function mode while it has locked a tensor, whose history is made again after a write without gradients")
def asked_under_a_lock(compile):
    def f(x):
        with torch.inference_mode():
            x.unbind()[1].add_(x[0])
        return _Twice.apply(x)

    compiled, found = compile(f), []
    for _ in range(2):
        x = torch.arange(9.0).view(3, 3).requires_grad_().t()
        with Calls() as mode:
            y = compiled(x)
        found.append((mode.names, y, x, y.grad_fn is None))
    return found
