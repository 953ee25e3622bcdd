"""Second derivatives through compiled functions that write to inputs or buffers, or give back views of inputs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


def second(y, *inputs):
    gs = torch.autograd.grad(y, inputs, create_graph=True)
    return gs, torch.autograd.grad(sum((g * g).sum() for g in gs), inputs, allow_unused=True)


@program("", "a buffer counted up")
def buffer_counts(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return (x**3).sum()

    m = M()
    c = compile(m)
    x = torch.rand(3, requires_grad=True)
    return second(c(x), x), second(c(x), x), m.count


@program("", "a buffer read, then written")
def buffer_read_then_written(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.ones(3))

        def forward(self, x):
            y = (x**3) * (self.mean + 1)
            self.mean.mul_(0.9).add_(x.detach(), alpha=0.1)
            return y.sum()

    m = M()
    c = compile(m)
    x = torch.rand(3, requires_grad=True)
    return second(c(x), x), second(c(x), x), m.mean


@program("", "a buffer written, then read")
def buffer_written_then_read(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.ones(3))

        def forward(self, x):
            self.mean.mul_(0.9).add_(x.detach(), alpha=0.1)
            return ((x**3) * self.mean).sum()

    m = M()
    c = compile(m)
    x = torch.rand(3, requires_grad=True)
    return second(c(x), x), second(c(x), x), m.mean


@program("", "batch norm in training, affine, with momentum None")
def batch_norm(compile):
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None), nn.Tanh(), nn.Linear(4, 1)).double()
    c = compile(m)
    x = torch.rand(5, 3, dtype=torch.float64, requires_grad=True)
    out = []
    for _ in range(2):
        (g,) = torch.autograd.grad(c(x).sum(), x, create_graph=True)
        ((g.norm(2, dim=1) - 1) ** 2).mean().backward()
        out.append(g)
    return out, x, list(m.parameters()), list(m.buffers())


@program("", "spectral norm: the power iteration writes buffers")
def spectral_norm(compile):
    m = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2).double())
    c = compile(m)
    x = torch.rand(5, 3, dtype=torch.float64, requires_grad=True)
    (g,) = torch.autograd.grad(c(x).tanh().sum(), x, create_graph=True)
    (g**2).sum().backward()
    return g, x, list(m.parameters()), list(m.buffers())


@program("", "an input without gradient is changed")
def input_changed(compile):
    @compile
    def f(x, b):
        b.add_(1)
        return (x**3 * b).sum()

    x, b = torch.rand(3, requires_grad=True), torch.rand(3)
    return second(f(x, b), x), b


@program("", "an input without gradient is read, then changed")
def input_read_then_changed(compile):
    @compile
    def f(x, b):
        y = x**3 + b
        b.add_(1)
        return (y * x).sum()

    x, b = torch.rand(3, requires_grad=True), torch.rand(3)
    return second(f(x, b), x), b


@program("", "an input that has a gradient is changed")
def tracked_input_changed(compile):
    @compile
    def f(x):
        x.mul_(x + 0)
        return (x * x).sum()

    w = torch.rand(3, requires_grad=True)
    x = w * 2
    y = f(x)
    return torch.autograd.grad(y + (x**2).sum(), w), x


@program("", "a view of an input without gradient is changed")
def view_changed(compile):
    @compile
    def f(x, b):
        b[0].add_(1)
        b.t().mul_(2)
        return (x**3 * b).sum()

    x, b = torch.rand(3, requires_grad=True), torch.rand(2, 3)
    return second(f(x, b), x), b


@program("", "an input changes its shape")
def reshaped(compile):
    @compile
    def f(x, b):
        b.t_()
        return (x**3 * b).sum()

    b = torch.rand(3, 2)
    x = torch.rand(3, requires_grad=True)
    return second(f(x, b), x), b


@program("", "the result is a view of an input")
def result_is_view(compile):
    @compile
    def f(x):
        return x.view(-1), (x**3).sum()

    w = torch.rand(2, 3, requires_grad=True)
    x = w * w
    v, s = f(x)
    return second((v**3).sum() + s, w), second_of(f)


def second_of(f):
    x = torch.rand(2, 3, requires_grad=True)
    v, s = f(x)
    return second((v**3).sum() * s, x)


@program("", "the result is an input, or a view of a result")
def result_is_input(compile):
    @compile
    def f(x, y):
        z = (x * y).sin()
        return x, z, z[0], z.t(), y.detach()

    x, y = torch.rand(2, 3, requires_grad=True), torch.rand(2, 3, requires_grad=True)
    a, b, c, d, e = f(x, y)
    return second((a**3).sum() * b.sum() + (c**2).sum() + (d**3 * e.t()).sum(), x, y)


@program("", "the result is a view of an input that was changed")
def result_is_view_of_changed(compile):
    @compile
    def f(x, b):
        b.mul_(2)
        return b[0], (x**3 * b).sum()

    x, b = torch.rand(3, requires_grad=True), torch.rand(2, 3)
    v, s = f(x, b)
    return second(s, x), v, b


@program("", "the result is a view of a tracked input that was changed")
def result_is_view_of_tracked_changed(compile):
    @compile
    def f(x):
        x.mul_(x + 0)
        return x[0], x.t()

    w = torch.rand(2, 3, requires_grad=True)
    x = w * 2
    v, s = f(x)
    return torch.autograd.grad((s**2).sum() + (v**3).sum(), w), v, x


@program("", "results that share memory with each other, chunks and diagonals")
def result_views(compile):
    @compile
    def f(x):
        y = x.exp()
        a, b = y.chunk(2)
        return a, b, y.diagonal(), x.chunk(2)[1]

    x = torch.rand(4, 4, requires_grad=True)
    a, b, c, d = f(x)
    return second((a * b).sum() + (c**3).sum() + (d**3).sum(), x)


@program("", "a state that a step after step writes, differentiated after the last")
def steps(compile):
    @compile
    def step(x, w, state):
        y = (x * w).tanh() + state
        state.copy_(y.detach())
        return y

    w = torch.rand(3, requires_grad=True)
    x, state = torch.rand(3), torch.zeros(3)
    total = sum(step(x, w, state).pow(2).sum() for _ in range(3))
    return second(total, w), state


@program("", "dropout beside a counted buffer")
def dropout_and_buffer(compile):
    count = torch.zeros(())

    @compile
    def f(x):
        count.add_(1)
        return (F.dropout(x, 0.5) ** 3).sum()

    x = torch.rand(8, requires_grad=True)
    return second(f(x), x), count, torch.rand(2)


@program("", "a buffer read in its old and its new value, twice written")
def old_and_new(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.ones(3))

        def forward(self, x):
            y = x**3 * self.s.clone()
            self.s.mul_(1.5)
            y = y + (x**2) * self.s.clone()
            self.s.add_(y.detach())
            return y.sum()

    m = M()
    c = compile(m)
    x = torch.rand(3, requires_grad=True)
    a, b = c(x), c(x)
    return second(a, x), second(b, x), m.s


@program("", "second derivatives three times, with the graph retained, then freed")
def retained(compile):
    s = torch.ones(3)

    @compile
    def f(x):
        s.add_(1)
        return (x**3 * s.clone()).sum()

    x = torch.rand(3, requires_grad=True)
    y = f(x)
    found = [second(y, x) for _ in range(2)]
    y.backward()
    try:
        y.backward()
    except RuntimeError as e:
        return found, x, s, type(e)
    return found, x, s


@program("", "an input gets another shape, and is used")
def reshaped_first_order(compile):
    @compile
    def f(x, b):
        b.t_()
        return (x**3 * b).sum()

    b = torch.rand(3, 2)
    x = torch.rand(3, requires_grad=True)
    before = b._version
    f(x, b).backward()
    return x, b, b._version - before


@program("", "used before it gets another shape, unsqueezed and transposed")
def reshaped_after_use(compile):
    @compile
    def f(x, b, c):
        y = (x * b.sum(0)).sum()
        b.transpose_(0, 1)
        c.unsqueeze_(0)
        return y + (x * c).sum() + (b.t() * x).sum()

    b, c = torch.rand(2, 3), torch.rand(3)
    x = torch.rand(3, requires_grad=True)
    y = f(x, b, c)
    y.backward()
    return y, x, b, c


@program("", "another shape after backward's value was taken, and a write from outside: eager refuses")
def reshaped_then_written(compile):
    @compile
    def f(x, b):
        b.t_()
        return (x**3 * b).sum()

    b = torch.rand(3, 2)
    x, w = torch.rand(3, requires_grad=True), torch.rand(3, 2, requires_grad=True)
    z = (w * b).sum()
    y = f(x, b)
    b.add_(1)
    found = []
    for end in (y, z):
        try:
            end.backward()
        except RuntimeError as e:
            found.append(str(e)[:60])
    return found, b, x, w


@program("", "a tracked tensor gets another shape")
def reshaped_tracked(compile):
    @compile
    def f(x):
        x.t_()
        return (x * x).sum()

    w = torch.rand(3, 2, requires_grad=True)
    x = w * 2
    y = f(x)
    (y + (x**2).sum()).backward()
    return w, x


@program("", "a buffer gets another shape at every step")
def reshaped_buffer(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("s", torch.rand(3, 3))

        def forward(self, x):
            self.s.t_()
            return (x**3 * self.s).sum()

    m = M()
    c = compile(m)
    x = torch.rand(3, requires_grad=True)
    return second(c(x), x), second(c(x), x), m.s
