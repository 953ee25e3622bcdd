"""Programs that change or read what surrounds them: generators, default types, nested modes around breaks, mode stacks, threads."""

from __future__ import annotations

import contextlib
import threading

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from repro_corpus.program import program


@program("", "three generators, one cloned, one seeded again in the middle, beside the global one")
def several_generators(compile):
    a, b = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
    c = a.clone_state()

    @compile
    def f(x):
        first = torch.rand(2, generator=a) + x
        second = torch.randn(2, generator=b)
        third = torch.rand(2)
        b.manual_seed(5)
        fourth = torch.randint(0, 9, (3,), generator=b)
        print("between")
        return first, second, third, fourth, torch.rand(2, generator=c), torch.randperm(4, generator=a)

    torch.manual_seed(0)
    return [f(torch.ones(2)) for _ in range(2)], a.get_state().sum(), b.initial_seed(), torch.rand(1)


@program("", "fork_rng with a seed inside, and the state saved and put back around a draw")
def forked(compile):
    @compile
    def f(x):
        before = torch.rand(2)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            inside = torch.rand(2) * x
            if inside.sum() > 0.1:
                inside = inside + torch.bernoulli(torch.full((2,), 0.5))
        state = torch.get_rng_state()
        again = torch.rand(2)
        torch.set_rng_state(state)
        return before, inside, again, torch.rand(2), torch.initial_seed()

    torch.manual_seed(3)
    return f(torch.ones(2)), f(torch.ones(2)), torch.rand(2)


@program("", "the default dtype is changed by a context of the program, around a break and an exception")
def default_dtype(compile):
    @contextlib.contextmanager
    def default(dtype):
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    @compile
    def f(x, fail):
        with default(torch.float64):
            a = torch.ones(2) / 3
            print("inside")
            b = torch.tensor([1.5]) + 1
            try:
                if fail:
                    raise ValueError("inside")
            finally:
                c = torch.arange(2.0)
        return a + x, b, c, torch.zeros(1)

    found = [f(torch.ones(2), False)]
    try:
        f(torch.ones(2), True)
    except ValueError as e:
        found.append(str(e))
    return found, torch.get_default_dtype()


@program("", "a default device as a context and set inside, with factories of all kinds")
def default_device(compile):
    @compile
    def f(x):
        with torch.device("meta"):
            a = torch.empty(2, 3)
            b = torch.zeros_like(x)
            layer = torch.nn.Linear(2, 2)
        c = torch.ones(2)
        return a.device.type, a.shape, b, layer.weight.is_meta, c + x, torch.get_default_device().type

    return f(torch.ones(2)), f(torch.ones(2))


@program("", "grad modes nested three deep, as decorators and contexts, with a branch on a tensor in the innermost")
def nested_grad_modes(compile):
    @torch.no_grad()
    def frozen(x):
        with torch.enable_grad():
            y = x * 2
            if y.sum() > 0:
                with torch.set_grad_enabled(False):
                    z = y * 3
                    print(torch.is_grad_enabled())
                w = y * 4
            seen.append(torch.is_grad_enabled())
        return y, z, w, y * 5

    @compile
    def f(x):
        results = frozen(x)
        previous = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        a = x * 2
        torch.set_grad_enabled(previous)
        return *results, a, x * 3

    seen = []
    out = f(torch.ones(2, requires_grad=True))
    return out, seen, torch.is_grad_enabled()


@program("", "autocast nested with another type, switched off inside, left by an exception, and entered by hand")
def nested_autocast(compile):
    @compile
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            a = x @ w
            with torch.autocast("cpu", enabled=False):
                b = x @ w
                print(torch.is_autocast_enabled("cpu"))
            with torch.autocast("cpu", torch.float16):
                c = x @ w.detach()
            try:
                with torch.autocast("cpu", enabled=False):
                    raise KeyError
            except KeyError:
                d = x @ w
            e = torch.nn.functional.softmax(a, -1)
        cast = torch.autocast("cpu", torch.bfloat16, cache_enabled=False)
        cast.__enter__()
        g = x @ w
        cast.__exit__(None, None, None)
        return a, b, c, d, e, g, x @ w

    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)
    out = f(x, w)
    return out, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()


@program("", "deterministic algorithms are switched on in the function, asked for, and put back by the caller")
def deterministic(compile):
    @compile
    def f(x, index):
        before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)
        y = torch.zeros(3).index_add(0, index, x)
        e = torch.empty(2)
        torch.use_deterministic_algorithms(before)
        return y, e, before

    out = f(torch.ones(4), torch.tensor([0, 1, 1, 2]))
    return out, torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


class Renamed(TorchFunctionMode):
    def __init__(self, swap):
        super().__init__()
        self.swap, self.names = swap, []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return self.swap.get(func, func)(*args, **(kwargs or {}))


class Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


@program("", "a function mode replaces a function inside and around, nested with another")
def function_modes(compile):
    @compile
    def f(x):
        y = torch.sin(x)
        with Renamed({torch.cos: torch.exp}) as inner:
            y = torch.cos(y) + torch.sin(x)
        return y, torch.cos(x), inner.names

    with Renamed({torch.sin: torch.tanh}) as outer:
        result = f(torch.ones(2))
    return result, outer.names, f(torch.ones(2))


@program("", "a dispatch mode around a function with a break, and one entered inside a branch")
def dispatch_modes(compile):
    @compile
    def f(x):
        y = x.exp()
        print("break")
        with Ops() as inside:
            z = y.relu() + 1
        return z * 2, inside.ops

    first = f(torch.ones(2))
    with Ops() as outside:
        second = f(torch.ones(2))
    return first, second, outside.ops, f(torch.ones(2))


@program("", "two threads with other grad modes and autocast call one compiled function")
def threads(compile):
    @compile
    def f(x, w):
        y = x @ w
        return y * 2, torch.is_grad_enabled()

    w = torch.ones(2, 2, requires_grad=True)
    found = {}

    def run(name, mode):
        with mode():
            found[name] = f(torch.ones(2, 2), w)

    f(torch.ones(2, 2), w)
    jobs = {
        "off": torch.no_grad,
        "on": torch.enable_grad,
        "cast": lambda: torch.autocast("cpu", torch.bfloat16),
        "inference": torch.inference_mode,
    }
    for name, mode in jobs.items():
        thread = threading.Thread(target=run, args=(name, mode))
        thread.start()
        thread.join()
    return [(k, v[0].dtype, v[0].requires_grad, v[0].is_inference(), v[1], v[0].detach().clone()) for k, v in found.items()]


@program("", "inference mode with a break inside; its results are used and refused outside")
def inference_results(compile):
    @compile
    def f(x, w):
        with torch.inference_mode():
            y = x * 2
            print("inside")
            y += 1
            view = y[0]
        with torch.inference_mode(False), torch.enable_grad():
            z = w * 3
        try:
            (w * y).sum().backward()
        except RuntimeError as e:
            return y, view, z, str(e)[:40]
        return y, view, z, "no error"

    w = torch.ones(2, 2, requires_grad=True)
    out = f(torch.ones(2, 2), w)
    try:
        out[0].add_(1)
    except RuntimeError as e:
        return out, str(e)[:40]
    return out, [t.is_inference() for t in out[:3]], torch.is_inference_mode_enabled()


@program("", "a generator function suspended inside no_grad leaks its mode as eager does, and multithreading and print options are asked")
def suspended_mode(compile):
    def rows(x):
        with torch.no_grad():
            for row in x:
                yield row * 2, torch.is_grad_enabled()

    @compile
    def f(x):
        g = rows(x)
        first = next(g)
        here = x * 1, torch.is_grad_enabled()
        rest = list(g)
        with torch.autograd.set_multithreading_enabled(False):
            y = (x * x).sum()
        return first, here, rest, y, torch.is_grad_enabled()

    return f(torch.ones(2, 2, requires_grad=True)), torch.is_grad_enabled()
