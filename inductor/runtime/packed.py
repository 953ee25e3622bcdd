"""Convolution with weights prepared for it: batch norm folded in, and laid out in blocks as oneDNN wants them.

ATen reorders the weights of a convolution at every call: of the 50 ms that resnet18 spends in convolutions (4 images of 128x128, one
thread), 12 ms go away with weights that are in blocks already. Parameters may change between calls, through `.data` or numpy
without a trace in the tensor, so each call takes a fingerprint of their contents (23 GB/s and thread) and prepares them again when it
is another. `config.freezing` trusts that they never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynamo import config
from inductor import _host
from inductor.ir.dims import span
from inductor.runtime.layout import is_connected

Tensor = torch.Tensor
Norm = Sequence[Tensor | None]  # weight, bias, running mean, running variance; empty: no batch norm

_SCHEMA = """packed_convolution(Tensor x, Tensor weight, Tensor? bias, Tensor?[] norm, float eps,
    int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"""
_library = torch.library.Library("dynamo_debug", "DEF")
_library.define(_SCHEMA)


def folded(weight: Tensor, bias: Tensor | None, norm: Norm, eps: float) -> tuple[Tensor, Tensor | None]:
    """norm(conv(x, W) + b) = conv(x, s*W) + (b - mean)*s + beta, with s = gamma / sqrt(var + eps) per output channel."""
    if not norm:
        return weight, bias
    gamma, beta, mean, var = norm
    assert mean is not None and var is not None
    scale = (var.double() + eps).rsqrt()
    if gamma is not None:
        scale = scale * gamma
    shift = ((0 if bias is None else bias.double()) - mean) * scale
    if beta is not None:
        shift = shift + beta
    return (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype), shift.to(weight.dtype)


def plain(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    norm: Norm,
    eps: float,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    groups: int,
) -> Tensor:
    """What the operator means, without keeping anything."""
    weight, bias = folded(weight, bias, norm, eps)
    out = torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, False, [0, 0], groups)
    return out.contiguous(memory_format=torch.channels_last)


_library.impl("packed_convolution", plain, "CompositeExplicitAutograd")
PACKED = torch.ops.dynamo_debug.packed_convolution.default


def available() -> bool:
    """This torch can pack weights, and the user has not switched oneDNN off."""
    return torch._C._get_mkldnn_enabled() and hasattr(torch.ops.mkldnn, "_reorder_convolution_weight") and is_connected()


class PackedConvolution:
    """The operator for one place of one program: keeps the prepared weights and the fingerprint of what they were made from."""

    __slots__ = ("fingerprint", "is_frozen", "kept", "pointwise", "sizes")

    def __init__(self) -> None:
        self.is_frozen = bool(config.freezing)
        self.kept: tuple[bytes, Tensor, Tensor | None] | None = None
        self.sizes: tuple[int, ...] = ()
        self.fingerprint = _host.fingerprint
        self.pointwise: Any = torch.ops.mkldnn._convolution_pointwise.default._op

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        norm: Norm,
        eps: float,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        groups: int,
    ) -> Tensor:
        kept = self.kept
        if kept is None or not self.is_frozen:
            sources = tuple(t for t in (weight, bias, *norm) if t is not None)
            if not self.sizes:
                self.sizes = tuple(span(t.shape, t.stride()) * t.element_size() for t in sources)
            key = self.fingerprint(sources, self.sizes)
            if kept is None or kept[0] != key:
                new_weight, new_bias = folded(weight, bias, norm, eps)
                blocks = torch.ops.mkldnn._reorder_convolution_weight(new_weight, padding, stride, dilation, groups, list(x.shape))
                # a copy: the parameter itself would follow later changes before its fingerprint is taken
                kept = self.kept = (key, blocks, new_bias.clone() if new_bias is not None else None)
        out: Tensor = self.pointwise(x, kept[1], kept[2], padding, stride, dilation, groups, "none", [], "")
        return out
