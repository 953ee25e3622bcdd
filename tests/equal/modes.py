"""Global modes around graphs: grad mode, autocast, default dtype, determinism and the like, across breaks and calls."""

from __future__ import annotations

import contextlib

import torch

from repro_corpus.program import program


def grown(*shape: int) -> torch.Tensor:
    n = int(torch.tensor(shape).prod())
    return torch.linspace(-1.0, 1.0, n).reshape(shape).requires_grad_()


# ---- grad mode --------------------------------------------------------------------------------------------


@program("", "after a no_grad block gradients are on again")
def no_grad_block(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x @ x
        return y, x * 3

    return f(torch.ones(2, 2, requires_grad=True))


@program("", "after a no_grad block that a branch on data splits gradients are on again")
def no_grad_block_with_branch(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x @ x
            if y.sum() > 0:
                y = y * 2
        return y, x * 3

    x = torch.ones(2, 2, requires_grad=True)
    y, z = f(x)
    z.sum().backward()
    return x, y, z, torch.is_grad_enabled()


@program("", "the same with a print, and gradients through what comes after")
def no_grad_block_with_print(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x @ x
            print("inside")
            y = y.sin() + x
        z = (x * y).cos()
        print("outside")
        return y, z * x

    x = grown(3, 3)
    y, z = f(x)
    z.sum().backward()
    return x, y, z


@program("", "an inner enable_grad beats an outer no_grad")
def enable_inside_no_grad(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x * 2
            with torch.enable_grad():
                z = x * 3
            return y, z, x * 4

    x = grown(3)
    y, z, w = f(x)
    z.sum().backward()
    return x, y, z, w


@program("", "an inner enable_grad beats a no_grad around the call")
def enable_under_callers_no_grad(compile):
    @compile
    def f(x):
        y = x * 2
        with torch.enable_grad():
            z = (x * 3).sin()
        return y, z

    x = grown(3)
    with torch.no_grad():
        y, z = f(x)
    z.sum().backward()
    return x, y, z


class _Enabled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0, 1, 4))

    @torch.enable_grad()
    def forward(self, x):
        return (x * self.weight).sin()


@program("", "forward decorated with enable_grad, called under no_grad")
def decorated_forward(compile):
    m = _Enabled()
    x = grown(4)
    with torch.no_grad():
        out = compile(m)(x)
    out.sum().backward()
    return out, x, m.weight


class _Disabled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0, 1, 4))

    @torch.no_grad()
    def forward(self, x):
        y = x * self.weight
        print("in forward")
        return y.sin()


@program("", "forward decorated with no_grad, with a break")
def decorated_forward_no_grad(compile):
    m = _Disabled()
    x = grown(4)
    return compile(m)(x), compile(m)(x), torch.is_grad_enabled()


@program("", "forward decorated with no_grad below a module with gradients")
def decorated_inner_forward(compile):
    m = _Disabled()

    @compile
    def f(x):
        return m(x) + x * 2

    x = grown(4)
    out = f(x)
    out.sum().backward()
    return out, x, m.weight


@program("", "set_grad_enabled as a function leaves the mode as eager does")
def set_grad_enabled_function(compile):
    @compile
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    return f(grown(3)), torch.is_grad_enabled()


@program("", "set_grad_enabled(False) stays after the call")
def set_grad_enabled_stays(compile):
    @compile
    def f(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y, x * 3

    x = grown(3)
    out = f(x)
    mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return out, mode


@program("", "set_grad_enabled(False) stays after a break in the middle")
def set_grad_enabled_stays_after_break(compile):
    @compile
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        print("broken")
        return y, x * 3

    x = grown(3)
    out = f(x)
    mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return out, mode


@program("", "set_grad_enabled(True) stays after a call under gradients off")
def set_grad_enabled_true_stays(compile):
    @compile
    def f(x):
        y = x * 2
        torch.set_grad_enabled(True)
        return y, x * 3

    x = grown(3)
    torch.set_grad_enabled(False)
    y, z = f(x)
    mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    z.sum().backward()
    return y, z, x, mode


@program("", "set_grad_enabled as a context manager with a computed flag")
def set_grad_enabled_context(compile):
    @compile
    def f(x, train):
        with torch.set_grad_enabled(train):
            y = x * 2
            print(train)
            z = y.sin()
        return z, x * 3

    x = grown(3)
    return f(x, True), f(x, False), f(x, True), torch.is_grad_enabled()


@program("", "grad mode is read between graphs")
def is_grad_enabled_between(compile):
    @compile
    def f(x):
        seen = [torch.is_grad_enabled()]
        with torch.no_grad():
            y = x * 2
            print("one")
            seen.append(torch.is_grad_enabled())
            with torch.enable_grad():
                z = x * y
                print("two")
                seen.append(torch.is_grad_enabled())
            seen.append(torch.is_grad_enabled())
        seen.append(torch.is_grad_enabled())
        return y, z, seen

    return f(grown(3))


@program("", "an exception in a no_grad block with a break restores gradients")
def no_grad_block_raises(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x * 2
            print("inside")
            return y @ torch.ones(int(y.shape[0]) + 1)

    try:
        f(grown(3))
        raised = None
    except RuntimeError as e:
        raised = type(e)
    return raised, torch.is_grad_enabled(), torch.ones(2, requires_grad=True) * 2


@program("", "a handler in the function catches what a no_grad block raises")
def no_grad_block_raises_inside(compile):
    @compile
    def f(x):
        try:
            with torch.no_grad():
                y = x * 2
                print("inside")
                raise ValueError("no")
        except ValueError:
            return y, x * 3, torch.is_grad_enabled()

    return f(grown(3))


@program("", "a run-time failure of a graph inside no_grad restores gradients")
def no_grad_fails_at_run_time(compile):
    @compile
    def f(x, i):
        with torch.no_grad():
            print("inside")
            return (x * 2).index_select(0, i)

    try:
        f(grown(3), torch.tensor([5]))
        raised = False
    except (RuntimeError, IndexError):
        raised = True
    return raised, torch.is_grad_enabled(), torch.ones(2, requires_grad=True) * 2


@program("", "a generator-based context manager around no_grad")
def own_context_manager(compile):
    @contextlib.contextmanager
    def frozen():
        with torch.no_grad():
            yield

    @compile
    def f(x):
        with frozen():
            y = x * 2
            print("inside")
            y = y + x
        return y, x * 3

    return f(grown(3)), torch.is_grad_enabled()


@program("", "ExitStack with modes")
def exit_stack(compile):
    @compile
    def f(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            y = x * 2
            stack.enter_context(torch.autocast("cpu"))
            z = x @ x
        return y, z, x @ x

    return f(grown(3, 3)), torch.is_grad_enabled()


@program("", "a view made under no_grad, written under gradients")
def in_place_on_parameter_under_no_grad(compile):
    @compile
    def f(x, w):
        with torch.no_grad():
            w.mul_(0.5)
            print("updated")
            w.add_(1.0)
        return (x * w).sum()

    w = grown(3)
    x = grown(3)
    out = f(x, w)
    out.backward()
    return out, x, w


@program("", "a training loop in one function: steps under no_grad, gradients outside")
def manual_sgd(compile):
    @compile
    def step(w, x):
        loss = ((x * w).sin()).sum()
        (g,) = torch.autograd.grad(loss, w)
        with torch.no_grad():
            w -= 0.1 * g
        return loss

    w, x = grown(4), torch.linspace(0, 1, 4)
    losses = [step(w, x).item() for _ in range(3)]
    return losses, w


# ---- autocast ---------------------------------------------------------------------------------------------


@program("", "autocast switched off inside, on around the call")
def autocast_off_under_outer(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", enabled=False):
            return x @ x

    x = grown(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = f(x)
        inner = x @ x
    return out, inner


@program("", "autocast off in the middle of a function called under autocast")
def autocast_off_in_the_middle(compile):
    @compile
    def f(x):
        a = x @ x
        with torch.autocast("cpu", enabled=False):
            b = x @ x
        return a, b, x @ x

    x = grown(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = f(x)
    (out[0].float().sum() + out[1].sum() + out[2].float().sum()).backward()
    return out, x


@program("", "a block of autocast that a break splits")
def autocast_block_with_break(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            print("inside")
            z = x @ x
        return y, z, x @ x, torch.is_autocast_enabled("cpu")

    x = grown(4, 4)
    return f(x), x @ x


@program("", "a block of autocast with a branch on data")
def autocast_block_with_branch(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            if y.sum() > -1e9:
                y = y @ x
        return y, x @ x

    x = grown(4, 4)
    y, z = f(x)
    (y.float().sum() + z.sum()).backward()
    return y, z, x, x @ x


@program("", "nested blocks of autocast of two dtypes, with a break in the inner")
def autocast_nested(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ x
            with torch.autocast("cpu", dtype=torch.float16):
                b = x @ x
                print("inner")
                c = x @ x
            d = x @ x
            with torch.autocast("cpu", enabled=False):
                e = x @ x
                print("off")
                g = x @ x
        return a, b, c, d, e, g, x @ x

    x = torch.linspace(-1, 1, 16).reshape(4, 4)
    return f(x), torch.get_autocast_dtype("cpu")


# eager casts the weight once for both calls and adds up the two gradients in bfloat16; two graphs add them up in float32
@program("", "autocast with the cache of casts: a weight used twice, with gradients", tolerance=(1e-2, 5e-3))
def autocast_cached_weight(compile):
    m = torch.nn.Linear(4, 4)

    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = m(x)
            print("between")
            return m(y)

    out = f(torch.linspace(-1, 1, 8).reshape(2, 4))
    out.float().sum().backward()
    return out, m.weight, m.bias


@program("", "a weight changed under autocast is not taken from the cache")
def autocast_changed_weight(compile):
    w = torch.nn.Parameter(torch.eye(3))

    @compile
    def f(x):
        return x @ w

    x = torch.linspace(-1, 1, 9).reshape(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = f(x)
    with torch.no_grad():
        w.mul_(3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = f(x)
    return a, b


@program("", "a function compiled under autocast and called outside of it")
def autocast_in_and_out(compile):
    @compile
    def f(x):
        return x @ x

    x = grown(4, 4)
    a = f(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = f(x)
        with torch.autocast("cpu", enabled=False):
            c = f(x)
    d = f(x)
    return a, b, c, d


@program("", "autocast as a decorator of an inner function")
def autocast_decorator(compile):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(x):
        y = x @ x
        print("inner")
        return y @ x

    @compile
    def f(x):
        return inner(x), x @ x

    return f(grown(4, 4))


# torch advises against it: eager then rounds what backward computes in float32 to bfloat16, and a compiled backward does not
@program("", "backward called inside the block", tolerance=(1e-2, 1e-2))
def autocast_backward_inside(compile):
    m = torch.nn.Linear(4, 4)

    @compile
    def f(x):
        return m(x).sin()

    x = grown(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = f(x)
        out.float().sum().backward()
    return out, x, m.weight, m.bias


@program("", "an exception in an autocast block with a break")
def autocast_block_raises(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            print("inside")
            raise ValueError("no")
        return y

    try:
        f(grown(3, 3))
    except ValueError:
        pass
    x = torch.ones(2, 2)
    return torch.is_autocast_enabled("cpu"), x @ x


@program("", "custom operators outside of autocast's list keep their dtype")
def autocast_of_float32_ops(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            return torch.nn.functional.softmax(y, -1), torch.nn.functional.mse_loss(y, x), y + x

    return f(grown(4, 4))


@program("", "convolutions, linear layers, attention and rnn under autocast off inside on")
def autocast_of_layers(compile):
    conv = torch.nn.Conv2d(2, 3, 3)
    linear = torch.nn.Linear(4, 3)
    lstm = torch.nn.LSTM(4, 3)

    @compile
    def f(x, y):
        with torch.autocast("cpu", enabled=False):
            a = conv(x)
            b = linear(y)
            c = lstm(y[None])[0]
            d = torch.nn.functional.scaled_dot_product_attention(y[None, None], y[None, None], y[None, None])
        return a, b, c, d, linear(y)

    x = torch.linspace(-1, 1, 72).reshape(1, 2, 6, 6)
    y = torch.linspace(-1, 1, 20).reshape(5, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return f(x, y)


# ---- other modes ------------------------------------------------------------------------------------------


@program("", "a default dtype set inside, with a break")
def default_dtype_inside(compile):
    @compile
    def f(x):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(3)
        print("inside")
        z = torch.zeros(2) + 0.5
        torch.set_default_dtype(torch.float32)
        return y, z, torch.ones(1), x * 2

    return f(grown(3)), torch.get_default_dtype()


@program("", "a default dtype that stays")
def default_dtype_stays(compile):
    @compile
    def f(x):
        torch.set_default_dtype(torch.float64)
        return torch.ones(3) + x

    out = f(torch.ones(3))
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    return out, dtype, torch.ones(2)


@program("", "a default dtype changed between the calls of a function with a break")
def default_dtype_between(compile):
    @compile
    def f(x):
        y = x * 2
        print("a break")
        return y, torch.ones(3)

    out = [f(torch.ones(3))]
    torch.set_default_dtype(torch.float64)
    out.append(f(torch.ones(3)))
    torch.set_default_dtype(torch.float32)
    out.append(f(torch.ones(3)))
    return out


@program("", "a default dtype set by what is called at a break")
def default_dtype_set_at_break(compile):
    def change(dtype):
        print(dtype)
        torch.set_default_dtype(dtype)

    @compile
    def f(x):
        a = torch.ones(3)
        change(torch.float64)
        b = torch.ones(3)
        change(torch.float32)
        return a, b, torch.ones(3), x + 1

    return f(torch.ones(3))


@program("", "deterministic algorithms around a break")
def deterministic_inside(compile):
    @compile
    def f(x):
        torch.use_deterministic_algorithms(True)
        y = x * 2
        print(torch.are_deterministic_algorithms_enabled())
        y = y + torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(False)
        return y, torch.are_deterministic_algorithms_enabled()

    return f(torch.ones(3)), torch.are_deterministic_algorithms_enabled()


@program("", "deterministic with warnings only stays")
def deterministic_stays(compile):
    @compile
    def f(x):
        torch.use_deterministic_algorithms(True, warn_only=True)
        return x * 2

    out = f(torch.ones(3))
    seen = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    return out, seen


@program("", "uninitialised memory is filled in deterministic mode")
def deterministic_fills(compile):
    @compile
    def f(x):
        return torch.empty(3), torch.empty_like(x), x.new_empty(2), x + 1

    torch.use_deterministic_algorithms(True)
    out = f(torch.ones(4))
    torch.use_deterministic_algorithms(False)
    return out


@program("", "matmul precision set inside")
def matmul_precision(compile):
    @compile
    def f(x):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("medium")
        y = x @ x
        print("inside")
        torch.set_float32_matmul_precision(before)
        return y, x @ x

    return f(grown(3, 3)), torch.get_float32_matmul_precision()


@program("", "a default device as a context manager around a break")
def default_device_context(compile):
    @compile
    def f(x):
        with torch.device("meta"):
            a = torch.ones(3)
            print("inside")
            b = torch.zeros(2)
        return a.device, b.device, torch.ones(2), x + 1

    return f(torch.ones(3)), torch.ones(1)


@program("", "set_default_device before the call, and inside")
def default_device_set(compile):
    @compile
    def f(x):
        return torch.ones(3), x + 1

    @compile
    def g(x):
        torch.set_default_device("meta")
        a = torch.ones(3)
        torch.set_default_device(None)
        return a.device, torch.ones(3), x + 1

    torch.set_default_device("meta")
    a, b = f(torch.ones(3, device="cpu"))
    torch.set_default_device(None)
    return a.device, b, f(torch.ones(3)), g(torch.ones(3)), torch.ones(1)


@program("", "anomaly mode around a forward with a break")
def anomaly_mode(compile):
    @compile
    def f(x):
        with torch.autograd.set_detect_anomaly(True):
            y = x * 2
            print(torch.is_anomaly_enabled())
            z = y.sin()
        return z, torch.is_anomaly_enabled()

    x = grown(3)
    out = f(x)
    out[0].sum().backward()
    return out, x


@program("", "anomaly mode finds a nan gradient of a compiled function")
def anomaly_finds_nan(compile):
    @compile
    def f(x):
        return torch.sqrt(x) * 0

    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        f(x).sum().backward()
    return x


@program("", "hooks on saved tensors inside the function are called for what is saved there")
def saved_tensor_hooks_inside(compile):
    @compile
    def f(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            return x * x

    x = grown(3)
    out = f(x)
    out.sum().backward()
    return out, x


@program("", "saved tensors on the cpu, around and inside a compiled function")
def save_on_cpu(compile):
    @compile
    def f(x):
        with torch.autograd.graph.save_on_cpu():
            y = x.sin() * x
            print("inside")
            return y.exp()

    x = grown(3)
    with torch.autograd.graph.save_on_cpu():
        out = f(x)
    out.sum().backward()
    return out, x


@program("", "hooks on saved tensors disabled around a compiled function")
def saved_tensor_hooks_disabled(compile):
    @compile
    def f(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("no hooks"):
            y = x.sin() * x
            print("inside")
        return y.exp()

    x = grown(3)
    out = f(x)
    out.sum().backward()
    return out, x


@program("", "the number of threads is set inside")
def threads(compile):
    @compile
    def f(x):
        n = torch.get_num_threads()
        torch.set_num_threads(1)
        y = x * 2
        print("inside")
        torch.set_num_threads(n)
        return y + 1

    return f(torch.ones(3)), torch.get_num_threads()


@program("", "torch functions disabled around an operation, with a break")
def torch_function_disabled(compile):
    @compile
    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x * 2
            print("inside")
            y = y + 1
        return y, x * 3

    return f(torch.ones(3))


@program("", "cudnn and mkldnn flags as context managers")
def backend_flags(compile):
    @compile
    def f(x):
        with torch.backends.mkldnn.flags(enabled=False), torch.backends.cudnn.flags(enabled=False):
            y = x @ x
            print(torch.backends.mkldnn.enabled)
            y = y @ x
        return y, torch.backends.mkldnn.enabled

    return f(grown(3, 3)), torch.backends.mkldnn.enabled
