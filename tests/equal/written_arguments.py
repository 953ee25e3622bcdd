"""Arguments of operators that are written between the passes, for each choice of what needs a gradient.

`kron` is left out: eager reads its arguments through what autograd doesn't know as a view, and the gradients are those of new values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program

OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "conv2d": lambda x, w: F.conv2d(x[None, None], w[None, None]),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w[0], training=True),
    "layer_norm": lambda x, w: F.layer_norm(x, (3,), w[0]),
    "rms_norm": lambda x, w: F.rms_norm(x, (3,), w[0]),
    "group_norm": lambda x, w: F.group_norm(x, 1, w[0]),
    "mm": torch.mm,
    "addmm": lambda x, w: torch.addmm(x, w, w),
    "bmm": lambda x, w: torch.bmm(x[None], w[None]),
    "einsum": lambda x, w: torch.einsum("ij,jk->k", x, w),
    "solve": lambda x, w: torch.linalg.solve(w + 9 * torch.eye(3), x),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
    "embedding": lambda x, w: F.embedding(torch.tensor([0]), x) * w,
    "cross_entropy": lambda x, w: F.cross_entropy(x, w.softmax(-1)),
    "nll_loss": lambda x, w: F.nll_loss(x, torch.tensor([0, 1, 2]), w[0].detach()),
    "mse_loss": F.mse_loss,
    "huber_loss": F.huber_loss,
    "kl_div": lambda x, w: F.kl_div(x, w.softmax(-1), reduction="sum"),
    "triplet": lambda x, w: F.triplet_margin_loss(x, w, w + 1),
    "cosine": F.cosine_similarity,
    "cdist": lambda x, w: torch.cdist(x, w),
    "lerp": lambda x, w: torch.lerp(x, w, w),
    "addcmul": lambda x, w: torch.addcmul(x, w, w),
    "addcdiv": lambda x, w: torch.addcdiv(x, w, w),
    "where": lambda x, w: torch.where(w > 0, x, w),
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "logaddexp": torch.logaddexp,
    "maximum": torch.maximum,
    "pow": lambda x, w: x.abs() ** w,
    "div": torch.div,
    "prelu": lambda x, w: F.prelu(x, w[0]),
    "glu": lambda x, w: F.glu(torch.cat([x, w], 1)),
    "gather": lambda x, w: x.gather(0, (w > 0).long()) * 1.0,
    "cumprod": lambda x, w: (x * w).cumprod(0),
    "grid_sample": lambda x, w: F.grid_sample(x[None, None], w[None, :, :2][:, None], align_corners=False),
}


def tried(compile, fn, written, needs):
    torch.manual_seed(7)
    x = torch.randn(3, 3).requires_grad_(needs[0])
    w = (torch.randn(3, 3) + 0.1).requires_grad_(needs[1])
    y = compile(fn)(x, w)
    with torch.no_grad():
        (x, w)[written].mul_(1.5)
    if not y.requires_grad:
        return "no gradients"
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return x.grad, w.grad


@program("", "an argument of an operator is written between the passes")
def written_between_passes(compile):
    choices = [(written, needs) for written in (0, 1) for needs in ((True, False), (False, True), (True, True))]
    return {(name, *choice): tried(compile, fn, *choice) for name, fn in OPERATORS.items() for choice in choices}


@program("", "a checkpoint keeps its argument, which another one's is computed from and is written to: its own pass has no part in that")
def checkpoint_of_another_value(compile):
    @compile
    def f(x):
        y = x * 1.0
        y = checkpoint(lambda s: s.relu(), y, use_reentrant=False)
        z = checkpoint(lambda s: s.exp() * 2, x, use_reentrant=False)
        return y, z, checkpoint(lambda s: s.relu().clone().mul_(2), x, use_reentrant=False)

    found = []
    for k in range(3):
        x = torch.linspace(-1, 1, 6).requires_grad_()
        results = f(x)
        x.detach().mul_(-2)
        try:
            results[k].sum().backward()
        except RuntimeError as error:
            found.append(str(error)[:40])
        found.append(x.grad)
    return found


@program("", "a formula keeps a view of what was computed from an argument; another result's reads the argument, which is written to")
def view_of_another_value(compile):
    views = (lambda y: y[1:2], lambda y: y.t(), lambda y: y.unsqueeze(0), lambda y: y[:1].expand(3, 3), lambda y: y.view(-1).view(3, 3))

    def passes(view, k):
        @compile
        def f(x):
            y = x * 1.0
            return x**2, F.softmax(y, -1) * view(y), view(y).exp() * view(y)

        x = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
        results = f(x)
        x.detach().mul_(-2)
        try:
            results[k].sum().backward()
        except RuntimeError as error:
            return str(error)[:40]
        return x.grad

    return [passes(view, k) for view in views for k in range(3)]


SHARING = {
    "same": lambda a: a,
    "data": lambda a: a.data,
    "detached": lambda a: a.detach(),
    "turned": lambda a: a.t(),
    "part": lambda a: a[1:],
    "turned data": lambda a: a.data.t(),
}


def turned_and_written(x, w):
    x.t_()
    x.add_(1)


COUNTING = {
    "first": lambda x, w: x.add_(1),
    "second": lambda x, w: w.add_(1),
    "parts": lambda x, w: (x[1:].mul_(2), w[0].zero_()),
    "turned": turned_and_written,
    "detached": lambda x, w: x.detach().mul_(2),
    "list": lambda x, w: (torch._foreach_mul_([x], 2.0), x.zero_()),
}


@program("", "arguments that share memory count writes together or, as what .data gives, alone")
def counts_of_shared_memory(compile):
    found = []
    for (name, write), (kind, other), turn in itertools.product(COUNTING.items(), SHARING.items(), (False, True)):

        @compile
        def f(x, w, write=write):
            write(x, w)
            return x * 2, w * 2

        a = torch.arange(9.0).view(3, 3).clone()
        b = other(a)
        for _ in range(2):
            results = f(b, a) if turn else f(a, b)
            found.append((name, kind, turn, results, a, b, a._version, b._version))
    return found


def _in_place(a, b):
    a.copy_(b)
    return a


def _of_itself(a, b):
    a.copy_(a)
    return a


def _by_index(a, b):
    a[:] = a
    return a


def _detached(a, b):
    a.detach().copy_(a)
    return a


def _without_gradients(a, b):
    with torch.no_grad():
        a.copy_(b)
    return a


def _new(a, b):
    return torch.empty(3).copy_(b)


def _of_a_view(a, b):
    return torch.empty(3).copy_(b.view(3))


@program("", "what autograd saves of a copy is the copy, not what it was made of, nor the copy as it was before")
def copies_that_are_saved(compile):
    found = []
    for copy in (_in_place, _of_itself, _by_index, _detached, _without_gradients, _new, _of_a_view):
        for returned, then in itertools.product((False, True), ("nothing", "first", "second", "copy")):

            @compile(fullgraph=True)
            def f(a, b, c, copy=copy, returned=returned):
                t = copy(a, b)
                return torch.atan2(c, t), t if returned else None

            a, b, c = torch.full((3,), 2.0), torch.ones(3), torch.ones(3, requires_grad=True)
            y, t = f(a, b, c)
            written = {"first": a, "second": b, "copy": t}.get(then)
            if written is not None:
                written.detach().add_(1)
            try:
                found.append(torch.autograd.grad(y.sum(), c))
            except RuntimeError as error:
                found.append(str(error)[:40])
            found.append((a, b, a._version, b._version))
    return found
