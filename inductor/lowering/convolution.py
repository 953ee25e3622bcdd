"""Depthwise convolutions of channels-last images: the gradient of the weight as a nest over taps. Everything else is ATen's.

oneDNN computes that gradient in a layout with 16 x 16 numbers for each that is wanted, and takes longer than the sums themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import known_equal
from inductor.ir.expr import Expr, const, reduce
from inductor.lowering.concat import padded_load
from inductor.lowering.context import Context, Decline
from inductor.lowering.formulas import times
from inductor.lowering.pooling import pair
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor, dim_indices

BACKWARD = torch.ops.aten.convolution_backward.default


def is_channels_last(x: Tensor) -> bool:
    view = x.view()
    return view is not None and x.ndim == 4 and view.strides[1] == 1


@lowers("convolution_backward", "decomposed")
def _convolution_backward(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    is_depthwise = x.ndim == 4 and not transposed and groups > 1 and all(known_equal(n, groups) for n in (x.shape[1], weight.shape[0]))
    if not mask[1] or not is_depthwise or x.dtype is not torch.float32 or not (is_channels_last(x) and is_channels_last(grad)):
        raise Decline
    metas, ctx.meta = ctx.meta, None
    rest = (bias_sizes, stride, padding, dilation, transposed, output_padding, groups, [True, False, False])
    image = ctx.extern(BACKWARD, (grad, x, weight, *rest), {}, (metas[0], None, None))[0] if mask[0] else None
    bias = ctx.reduce("sum", grad, [0, 2, 3], False, grad.dtype) if mask[2] else None
    return image, depthwise_weight(ctx, grad, x, weight, pair(stride, 2), pair(padding, 2), pair(dilation, 2)), bias


def depthwise_weight(
    ctx: Context, grad: Tensor, x: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """`sum over n, i, j of grad[n, c, i, j] * x[n, c, i * stride + tap * dilation - padding, ...]`, computed as [taps, C]."""
    batch, channels, *size = grad.shape
    n, i, j = (of_atom(Axis(f"r{k}", extent)) for k, extent in enumerate((batch, *size)))

    def body(where: tuple[Index, ...]) -> Expr:
        *taps, channel = where
        place = [at * s + tap * d - p for at, tap, s, d, p in zip((i, j), taps, stride, dilation, padding, strict=True)]
        value = times(grad.load([n, channel, i, j]), padded_load(x, [n, channel, *place], const(0, x.type)))
        return reduce("sum", value, tuple(a for index in (n, i, j) for a in index.axes))

    out = ctx.make((*weight.shape[2:], channels), x.dtype, body)
    channel, _, *taps = dim_indices(weight.shape)
    return out.remap(weight.shape, [*taps, channel])
