"""Gradients that autograd computes in another way for tensors without data: running products by element, `mish` in parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from dynamo.aot.runtime import below_autograd
from dynamo.torch_facts import CUMPROD_IS_DIFFERENTIATED_BY_ELEMENTS

aten = torch.ops.aten
Tensor = torch.Tensor


class _Cumprod(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, dtype: torch.dtype | None) -> Tensor:
        y = torch.cumprod(x, dim, dtype=dtype)
        ctx.save_for_backward(x, y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        x, y = ctx.saved_tensors
        return cumprod_gradient(grad.to(x.dtype), x, y, ctx.dim), None, None


def cumprod_gradient(grad: Tensor, x: Tensor, y: Tensor, dim: int) -> Tensor:
    """The gradient at `x`, real, of `y = x.cumprod(dim)`, as ATen's `cumprod_backward` has it for tensors with data.

    With the first zero of a row at z: before it the sum of `grad * y` from there on, over x; at it the product of what is before, times
    the sum of `grad * (product of what is between)` up to the second zero; behind it 0.
    """
    is_zero = x == 0
    zeros = is_zero.cumsum(dim)
    before, rest = zeros == 0, zeros == 1
    running = (y * grad).masked_fill(~before, 0).flip(dim).cumsum(dim).flip(dim) / x
    first = rest.max(dim, keepdim=True)[1]
    at_first = torch.zeros_like(rest).scatter_(dim, first, True).logical_and_(rest)
    between = rest & ~at_first
    products = x.masked_fill(~between, 1).cumprod(dim) * grad.masked_fill(~rest, 0)
    ahead = y.gather(dim, (first - 1).relu_()).masked_fill_(first == 0, 1)
    at = products.sum(dim, keepdim=True) * ahead
    return torch.where(before, running, torch.where(at_first, at, torch.zeros_like(grad)))


class _Mish(torch.autograd.Function):
    """`mish_backward` is composed of other operators unless its tensor's backend has a kernel, as those with data do, and each rounds."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return aten.mish(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return aten.mish_backward(grad, x)
        with below_autograd():
            return aten.mish_backward(grad, x)


def _is_differentiated(x: Tensor) -> bool:
    return x.requires_grad and torch.is_grad_enabled() and torch._C._functorch.maybe_current_level() is None


def _cumprod(x: Tensor, dim: int, *, dtype: torch.dtype | None = None, **options: Any) -> Tensor:
    if not options and _is_differentiated(x) and not x.is_complex() and x.dim() and x.numel() > 1 and x.size(dim) > 1:
        return _Cumprod.apply(x, dim, dtype)
    return torch.cumprod(x, dim, dtype=dtype, **options)


def _mish(input: Tensor, inplace: bool = False) -> Tensor:
    if not _is_differentiated(input):
        return F.mish(input, inplace)
    return input.copy_(_Mish.apply(input.clone())) if inplace else _Mish.apply(input)


# What a graph calls -> what computes the same, with another gradient.
WITH_OTHER_GRADIENTS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((F.mish, aten.mish, aten.mish.default), _mish),
    **dict.fromkeys((aten.mish_, aten.mish_.default), partial(_mish, inplace=True)),
}
if CUMPROD_IS_DIFFERENTIATED_BY_ELEMENTS:
    WITH_OTHER_GRADIENTS |= dict.fromkeys((torch.cumprod, Tensor.cumprod, aten.cumprod, aten.cumprod.default), _cumprod)
