"""Nearest-neighbour upsampling by whole factors; other factors and modes stay ATen calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import as_shape, no_elements
from inductor.ir.expr import Expr, reduce
from inductor.lowering.context import Context, Decline
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor


def factors(small: Sequence[int], large: Sequence[int]) -> list[int]:
    if no_elements(small) or any(n % m for m, n in zip(small, large, strict=True)):
        raise Decline
    return [n // m for m, n in zip(small, large, strict=True)]


@lowers("upsample_nearest1d upsample_nearest2d upsample_nearest3d")
def _nearest(ctx: Context, x: Tensor, size: Sequence[int], *scales: Any) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    if any(s is not None and s != int(s) for s in scales):
        raise Decline
    times = factors(x.shape[2:], shape[2:])

    def body(where: tuple[Index, ...]) -> Expr:
        return x.load([*where[:2], *(w // f for w, f in zip(where[2:], times, strict=True))])

    return ctx.make(shape, x.dtype, body)


@lowers("upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward")
def _nearest_backward(ctx: Context, grad: Tensor, size: Sequence[int], input_size: Sequence[int], *scales: Any) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    if any(s is not None and s != int(s) for s in scales):
        raise Decline
    times = factors(shape[2:], grad.shape[2:])
    axes = tuple(Axis(f"r{k}", f) for k, f in enumerate(times) if f > 1)
    if not axes:
        return grad

    def body(where: tuple[Index, ...]) -> Expr:
        taps = iter(axes)
        place = [w * f + (of_atom(next(taps)) if f > 1 else Index(0)) for w, f in zip(where[2:], times, strict=True)]
        return reduce("sum", grad.load([*where[:2], *place]), axes)

    return ctx.make(shape, grad.dtype, body)
