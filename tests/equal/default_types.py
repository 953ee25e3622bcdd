"""Default dtype and default device: changed before a break, between calls, in a block; what was compiled before doesn't serve then."""

from __future__ import annotations

import torch

from repro_corpus.program import program


def restored(run):
    try:
        return run()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


@program("", "the default dtype is changed before a break")
def dtype_before_break(compile):
    @compile
    def f(x):
        torch.set_default_dtype(torch.float64)
        print("break")
        return torch.ones(2) + x, torch.tensor(1.5), torch.get_default_dtype()

    return restored(lambda: (f(torch.ones(2)), torch.zeros(1).dtype, f(torch.ones(2)), torch.zeros(1)))


@program("", "changed before a break, changed back behind it")
def dtype_around_break(compile):
    @compile
    def f(x):
        old = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        a = torch.rand(2)
        print("break")
        b = torch.arange(0, 1, 0.5)
        torch.set_default_dtype(old)
        return a.dtype, b, torch.full((2,), 0.5) * x

    return restored(lambda: (f(torch.ones(2)), f(torch.ones(2)), torch.zeros(1)))


@program("", "changed before a break that depends on data, by a function of the program")
def dtype_before_branch(compile):
    def precise():
        torch.set_default_dtype(torch.float64)

    @compile
    def f(x):
        y = torch.ones(2)
        if x.sum() > 0:
            precise()
        z = torch.ones(2)
        return y, z, x * 2.5

    return restored(lambda: (f(-torch.ones(2)), f(torch.ones(2)), f(-torch.ones(2))))


@program("", "the default dtype is changed between calls, and back")
def dtype_between_calls(compile):
    @compile
    def f(x):
        return torch.linspace(0, 1, 3) + x, torch.tensor(0.1), x.long() / 2

    def run():
        out = []
        for dtype in (torch.float32, torch.float64, torch.float32, torch.bfloat16, torch.float64):
            torch.set_default_dtype(dtype)
            out.append(f(torch.ones(3, dtype=torch.float32)))
        return out

    return restored(run)


@program("", "integers divided, and their means, follow the default dtype of the call")
def dtype_of_integers(compile):
    @compile
    def f(n):
        return n / 3, n * 0.5, torch.sin(n), n.float().mean(), torch.where(n > 1, 0.5, 1.5)

    def run():
        out = []
        for dtype in (torch.float64, torch.float32, torch.float16, torch.float64):
            torch.set_default_dtype(dtype)
            out.append(f(torch.arange(4)))
        return out

    return restored(run)


@program("", "a model and its optimizer, made under another default dtype")
def dtype_of_model(compile):
    def run():
        torch.set_default_dtype(torch.float64)
        m = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        c = compile(m)
        c(torch.ones(2, 3)).sum().backward()
        torch.set_default_dtype(torch.float32)
        return c(torch.ones(2, 3, dtype=torch.float64)), list(m.parameters())

    return restored(run)


@program("", "an error between the change and its undoing")
def dtype_and_error(compile):
    @compile
    def f(x, i):
        torch.set_default_dtype(torch.float64)
        y = torch.ones(3)[i]
        torch.set_default_dtype(torch.float32)
        return y + x

    def run():
        out = [f(torch.ones(1), torch.tensor([1]))]
        try:
            f(torch.ones(1), torch.tensor([7]))
        except IndexError:
            out.append(torch.get_default_dtype())
        return out, torch.zeros(1)

    return restored(run)


@program("", "a dtype that can't be the default")
def dtype_refused(compile):
    @compile
    def f(x):
        try:
            torch.set_default_dtype(torch.int64)
        except TypeError as e:
            return x + 1, str(e), torch.ones(1)
        return x

    return restored(lambda: (f(torch.ones(2)), f(torch.ones(2))))


@program("", "gradients under a default dtype that is changed before backward")
def dtype_before_backward(compile):
    @compile
    def f(x):
        return (x * torch.ones(3) * 1.5).sum()

    def run():
        x = torch.ones(3, requires_grad=True)
        y = f(x)
        torch.set_default_dtype(torch.float64)
        y.backward()
        z = f(x)
        z.backward()
        return y, z, x

    return restored(run)


@program("", "the default device is changed between calls, and inside before a break")
def device_between_calls(compile):
    @compile
    def f(n):
        return torch.ones(n), torch.arange(n)

    @compile
    def g(n):
        torch.set_default_device("meta")
        print("break")
        return torch.ones(n).device, torch.get_default_device()

    def run():
        a = f(2)
        torch.set_default_device("meta")
        b = [t.device for t in f(2)]
        torch.set_default_device("cpu")
        c = f(2)
        d = g(3)
        torch.set_default_device(None)
        return a, b, c, d, f(2)

    return restored(run)


@program("", "a device as a context, around the call and inside, with a break in it")
def device_context(compile):
    @compile
    def f(n):
        return torch.ones(n)

    @compile
    def g(n):
        with torch.device("meta"):
            a = torch.ones(n)
            print("break")
            b = torch.zeros(n)
        return a.device, b.device, torch.ones(n)

    def run():
        a = f(2)
        with torch.device("meta"):
            b = f(2).device
        return a, b, f(2), g(2), g(2)

    return restored(run)


@program("", "default dtype and device as arguments of one function")
def as_arguments(compile):
    @compile
    def f(dtype, device):
        torch.set_default_dtype(dtype)
        torch.set_default_device(device)
        x = torch.ones(2)
        return x.dtype, x.device, torch.tensor([1, 2]).device, torch.tensor(1.0).dtype

    cases = [(torch.float64, "cpu"), (torch.float32, "meta"), (torch.float64, None), (torch.float32, "cpu")]
    return restored(lambda: [f(*case) for case in cases])
