"""Warnings that operators give at every call: as often, from the same lines and under the same filters as in eager."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F

from repro_corpus.program import program


@program("", "results written into tensors of another shape, inputs and others, once and twice")
def resized_results(compile):
    @compile
    def given(a, o):
        return torch.add(a, a, out=o) * 2

    @compile
    def own(a):
        o, p = torch.ones(5), torch.ones(4)
        return torch.mul(a, a, out=o), torch.sin(a, out=p)

    @compile
    def pair(m, values, indices):
        return torch.max(m, 0, out=(values, indices))

    out = [given(torch.ones(3), torch.ones(n)) for n in (2, 3, 0, 2)]
    indices = torch.ones(4, dtype=torch.int64)
    return out, [own(torch.ones(3)) for _ in range(2)], pair(torch.eye(3), torch.ones(2), indices)


@program("", "losses of shapes that differ, a softmax without dim, deprecated names")
def of_functions(compile):
    @compile
    def f(x, y):
        z = x + 1
        first = F.mse_loss(z, y) + F.l1_loss(z, y)
        warnings.warn("between", stacklevel=1)
        return first, F.softmax(x), F.kl_div(z, z), F.upsample(x[None, None], scale_factor=2)

    return [f(torch.ones(3), torch.ones(3, 1)) for _ in range(3)]


@program("", "kernels that warn and say nothing to tensors without data")
def of_kernels(compile):
    @compile
    def f(x):
        return x.std(), x.var(0), torch.var_mean(x, correction=3), x.std(correction=0)

    return [f(torch.ones(1)) for _ in range(3)], f(torch.ones(2)), f(torch.ones(1, dtype=torch.complex64))


@program("", "filters of the program around an operator that warns")
def under_filters(compile):
    @compile
    def raised(x, o):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return torch.add(x, x, out=o)
            except UserWarning as e:
                return x * 3, str(e)[:40]

    @compile
    def ignored(x, y):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = F.mse_loss(x, y)
        return loss, F.mse_loss(x, y)

    @compile
    def recorded(x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = F.softmax(x)
        return y, [(str(w.message)[:40], w.category) for w in caught]

    out = [(raised(torch.ones(3), torch.ones(2)), ignored(torch.ones(3), torch.ones(3, 1)), recorded(torch.ones(3))) for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            try:
                out.append(ignored(torch.ones(3), torch.ones(3, 1)))
            except UserWarning as e:
                out.append(str(e)[:40])
    return out


@program("", "nothing to differentiate in a reentrant checkpoint")
def in_a_checkpoint(compile):
    def body(x):
        return F.softmax(x) * F.mse_loss(x, x[:, None])

    @compile
    def f(x):
        return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=True)

    return [f(torch.ones(3)) for _ in range(2)]


@program("", "warnings of the passes of a function of the program's own")
def of_own_passes(compile):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            warnings.warn("forward", stacklevel=1)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            warnings.warn("backward", stacklevel=1)
            return grad * 2

    @compile
    def f(x):
        y = x + 1
        return Scaled.apply(y).sum() * 2

    out = []
    for needs in (True, False, True):
        x = torch.ones(2, requires_grad=needs)
        y = f(x)
        if needs:
            y.backward()
        out.append((y, x.grad))
    return out


@program("", "checks of a size: bounds, messages, and the warning that the name will go")
def checks_of_sizes(compile):
    def refused(f, *args):
        try:
            return f(*args)
        except RuntimeError as e:
            return str(e)

    @compile
    def bounded(x, most):
        torch._check_is_size(x.shape[0], max=most)
        return x + 1

    @compile
    def named(x, size):
        torch._check_is_size(size, lambda: f"no {size}")
        return x.new_zeros(size)

    x = torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            raised = bounded(x, 9)
        except FutureWarning as e:
            raised = str(e)
    return [refused(bounded, x, most) for most in (9, 3, 2, None)], [refused(named, x, size) for size in (2, 0, -1)], raised
