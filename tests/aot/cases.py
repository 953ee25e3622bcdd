"""Small programs, one per thing the AOT tracer has to get right. A row: name -> (function, inputs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tests.aot.compare import autocast_enabled, grad_mode

Case = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def plain(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def inner(*shape: int) -> torch.Tensor:
    """A tensor with history."""
    return torch.randn(*shape, requires_grad=True) * 1


def in_place_input(x: Any) -> Any:
    x.mul_(2)
    return x + 1


def write_through_views(x: Any) -> Any:
    y = x.clone()
    y[0].fill_(1.0)
    y[:, 1:3].mul_(3)
    y.t()[0].add_(1)
    y.view(-1)[::2].zero_()
    y.diagonal().add_(5)
    y.unsqueeze(0).squeeze(0).transpose(0, 1).sub_(1)
    return y * x


def write_base_read_view(x: Any) -> Any:
    y = x * 1
    v = y.view(-1)
    w = y[1]
    y.add_(1)
    return v * 2, w + 1


def write_view_read_other(x: Any) -> Any:
    y = x * 1
    a, b = y[0], y[:, 0]
    a.mul_(2)
    b.add_(1)
    return y, a * b.sum()


def split_and_write(x: Any) -> Any:
    y = x * 1
    a, b = y.split([1, 3], dim=1)
    c = y.unbind(0)
    a.add_(10)
    c[2].mul_(0)
    d = y.chunk(2, 1)
    d[1].sub_(1)
    return y, b


def copy_swap(x: Any, y: Any) -> Any:
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x.sum() + y.prod()


def copy_transposed(x: Any) -> Any:
    x.copy_(x.t().clone())
    return x * 2


def self_transpose(x: Any, y: Any) -> Any:
    y.copy_(x.t())
    x.add_(1)
    return y + x


def out_argument(x: Any, y: Any) -> Any:
    torch.add(x, 1, out=y)
    z = torch.empty(0)
    torch.mul(y, 2, out=z)
    return z


def no_grad_region(x: Any, y: Any) -> Any:
    a = x * 2
    grad_mode(False)
    b = a * 2
    y.add_(b.sum())
    grad_mode(True)
    return a * b + y.sin(), b


def autocast_region(x: Any, y: Any) -> Any:
    a = x @ y
    autocast_enabled(True)
    b = x @ y
    autocast_enabled(False)
    return a + b.float(), b


def inputs_returned(x: Any, y: Any) -> Any:
    return x, y * 2, x, y


def input_views(x: Any) -> Any:
    return x.view(-1), x.t(), x[0], x.detach(), x[1:].t()[0], x * 2


def alias_outputs(x: Any) -> Any:
    h = x.sin()
    return h, h.t(), h[0], h.detach(), h


def view_only(x: Any) -> Any:
    return x.exp().view(-1)[1:]


def view_after_write(x: Any) -> Any:
    v = x[0]
    x.add_(1)
    return v, x[1]


def in_place_metadata(x: Any) -> Any:
    y = x * 1
    v = y[0] + 1
    y.t_()
    y.add_(1)
    y.unsqueeze_(0)
    return y * 2, v


def input_metadata(x: Any) -> Any:
    x.t_()
    x.mul_(3)
    return x.sum(0)


def constants(x: Any) -> Any:
    c = torch.tensor([1.0, 2.0, 3.0, 4.0])
    c.mul_(2)
    return x * c + torch.tensor(3.0), torch.ones(2, dtype=torch.int64), 5, None


def dropout_twice(x: Any) -> Any:
    return F.dropout(F.dropout(x, 0.5, True) + 1, 0.3, True) * x


def random_kinds(x: Any) -> Any:
    a = torch.rand_like(x) + torch.randn(4)
    b = torch.empty_like(x).uniform_(1, 2).normal_().bernoulli_(0.3)
    return x * a + b, torch.randint(0, 10, (3,))


def complex_numbers(x: Any) -> Any:
    z = torch.complex(x, x * 2)
    return torch.fft.fft(z).abs(), z.conj() * 2, z.real * 3, torch.view_as_real(z) + 1


def mixed_dtypes(x: Any) -> Any:
    return x.double().sin().float() + x.to(torch.bfloat16).float(), x.int(), x > 0


def index_writes(x: Any, i: Any) -> Any:
    y = x.clone()
    y[i] = 1.0
    y.index_add_(0, i, x[i])
    y.masked_fill_(x > 0.5, 2.0)
    y.scatter_(1, i.unsqueeze(1), 3.0)
    y[1, 2] = 7
    return y * x


def foreach_writes(a: Any, b: Any) -> Any:
    torch._foreach_add_([a, b], 2.0)
    torch._foreach_mul_([a, b], [b + 1, a * 2])
    return torch._foreach_sqrt(torch._foreach_abs([a, b]))


def rms_norm(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def attention(x: Any, w: Any) -> Any:
    q, k, v = (x @ w).chunk(3, -1)
    return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def unused_output(x: Any, y: Any) -> Any:
    return x.argmax(), (x * y).sum(), y.sum()


def write_non_grad_with_grad(x: Any, b: Any) -> Any:
    b.add_(x)
    return b * 2


def write_under_no_grad(x: Any) -> Any:
    grad_mode(False)
    x.sub_(0.1)
    grad_mode(True)
    return x * 3


def overlapping(x: Any) -> Any:
    return x.expand(3, 4).clone().mul_(2) + x.as_strided((3, 4), (0, 1))


def as_strided_write(x: Any) -> Any:
    y = x * 1
    y.as_strided((2, 2), (2, 1), 1).add_(1)
    return y


def nested_results(x: Any) -> Any:
    return {"a": x + 1, "b": [x.sum(), (x * 2,)]}


def shared(n: int) -> tuple[Any, ...]:
    base = torch.randn(12)
    return (base[:8].view(2, 4), base[2:6], base)[:n]


def same_twice(x: Any, y: Any) -> Any:
    return x * y + x


def write_first_of_two(x: Any, y: Any) -> Any:
    x.add_(1)
    return y * 2, x


def write_second_of_two(x: Any, y: Any) -> Any:
    y.mul_(2)
    return x + 1, y, x.view(-1)


def duplicated() -> tuple[Any, ...]:
    x = leaf(3, 4)
    return x, x


def duplicated_plain() -> tuple[Any, ...]:
    x = plain(3, 4)
    return x, x


CASES: dict[str, Case] = {
    "pointwise": (lambda x, y: (x.sin() * y).exp().sum(), lambda: (leaf(3, 4), plain(3, 4))),
    "no grad needed": (lambda x, y: x @ y.t(), lambda: (plain(3, 4), plain(3, 4))),
    "grads of both": (lambda x, y: (x @ y, x.sum(0)), lambda: (leaf(3, 4), leaf(4, 5))),
    "non-leaf input": (lambda x: x.sin(), lambda: (inner(3, 4),)),
    "write input": (in_place_input, lambda: (plain(3, 4),)),
    "write input with history": (in_place_input, lambda: (inner(3, 4),)),
    "write through views": (write_through_views, lambda: (leaf(4, 4),)),
    "write base read view": (write_base_read_view, lambda: (leaf(3, 4),)),
    "write view read other": (write_view_read_other, lambda: (leaf(3, 4),)),
    "split and write": (split_and_write, lambda: (plain(3, 4),)),
    "write views of input": (write_view_read_other, lambda: (plain(3, 4),)),
    "copy swap": (copy_swap, lambda: (plain(3, 3), plain(3, 3))),
    "copy transposed": (copy_transposed, lambda: (plain(3, 3),)),
    "self transpose": (self_transpose, lambda: (plain(3, 3), plain(3, 3))),
    "out=": (out_argument, lambda: (plain(3, 4), plain(3, 4))),
    "no_grad region": (no_grad_region, lambda: (leaf(3, 4), plain(3, 4))),
    "autocast region": (autocast_region, lambda: (leaf(3, 4), leaf(4, 5))),
    "inputs returned": (inputs_returned, lambda: (leaf(3, 4), plain(3, 4))),
    "input views": (input_views, lambda: (leaf(3, 4),)),
    "input views without grad": (input_views, lambda: (plain(3, 4),)),
    "alias outputs": (alias_outputs, lambda: (leaf(3, 4),)),
    "alias outputs without grad": (alias_outputs, lambda: (plain(3, 4),)),
    "view only": (view_only, lambda: (leaf(3, 4),)),
    "view after write": (view_after_write, lambda: (plain(3, 4),)),
    "view after write with history": (view_after_write, lambda: (inner(3, 4),)),
    "in-place metadata": (in_place_metadata, lambda: (leaf(3, 4),)),
    "input metadata": (input_metadata, lambda: (plain(3, 4),)),
    "constants": (constants, lambda: (leaf(3, 4),)),
    "dropout": (dropout_twice, lambda: (leaf(8, 8),)),
    "random": (random_kinds, lambda: (leaf(3, 4),)),
    "complex": (complex_numbers, lambda: (leaf(3, 4),)),
    "dtypes": (mixed_dtypes, lambda: (leaf(3, 4),)),
    "index writes": (index_writes, lambda: (leaf(3, 4), torch.tensor([2, 0, 1]))),
    "foreach": (foreach_writes, lambda: (plain(3), plain(4)[:3])),
    "rms norm": (rms_norm, lambda: (leaf(3, 8), leaf(8))),
    "attention": (attention, lambda: (leaf(5, 8), leaf(8, 24))),
    "unused output": (unused_output, lambda: (leaf(3, 4), plain(3, 4))),
    "write gives history": (write_non_grad_with_grad, lambda: (leaf(3, 4), plain(3, 4))),
    "write parameter under no_grad": (write_under_no_grad, lambda: (leaf(3, 4),)),
    "overlapping": (overlapping, lambda: (leaf(4),)),
    "as_strided write": (as_strided_write, lambda: (leaf(3, 4),)),
    "nested results": (nested_results, lambda: (leaf(3),)),
    "duplicate": (same_twice, duplicated),
    "duplicate written": (write_first_of_two, duplicated_plain),
    "shared storage read": (lambda x, y: x.sum() + y, lambda: shared(2)),
    "shared storage written": (write_first_of_two, lambda: shared(2)),
    "shared storage written second": (write_second_of_two, lambda: shared(2)),
    "non-contiguous": (lambda x, y: (x * y).reshape(-1), lambda: (torch.randn(4, 3).t().requires_grad_(), torch.randn(4, 3).t())),
    "every second": (in_place_input, lambda: (torch.randn(3, 8)[:, ::2],)),
    "offset": (in_place_input, lambda: (torch.randn(5, 4)[2:],)),
    "zero size": (lambda x: (x.sum(0), x * 2, x.t()), lambda: (leaf(0, 4),)),
    "scalars": (lambda x: x * 2 + 1, lambda: (torch.tensor(2.0, requires_grad=True),)),
    "layer norm": (lambda x, w, b: F.gelu(F.layer_norm(x, (8,), w, b)), lambda: (leaf(3, 8), leaf(8), leaf(8))),
    "group norm": (lambda x: F.group_norm(x, 2), lambda: (leaf(2, 4, 5),)),
    "cross entropy": (lambda x, t: F.cross_entropy(x, t), lambda: (leaf(5, 7), torch.tensor([1, 2, 3, 0, 6]))),
    "conv pool": (
        lambda x, w: F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2),
        lambda: (leaf(2, 3, 8, 8), leaf(4, 3, 3, 3)),
    ),
    "channels last": (
        lambda x, w: F.conv2d(x, w).relu(),
        lambda: (torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last).requires_grad_(), leaf(4, 3, 3, 3)),
    ),
    "embedding": (lambda w, i: F.embedding(i, w).sum(1), lambda: (leaf(10, 4), torch.tensor([[1, 2], [3, 3]]))),
    "where clamp": (lambda x: torch.where(x > 0, x, -x).clamp(0.1, 0.9).cumsum(1), lambda: (leaf(3, 4),)),
    "identity": (lambda x: x, lambda: (leaf(3),)),
    "nothing": (lambda x: (), lambda: (leaf(3),)),
    "linear": (lambda x, w, b: F.linear(x, w, b), lambda: (leaf(2, 3, 4), leaf(5, 4), leaf(5))),
}
