"""What a tracer asks about results, as values to compare."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten


def facts(value: Any, inputs: list[Any], every_stride: bool = False) -> Any:
    """Everything a tracer asks about a result, as comparable values."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()._cdata
        shared = tuple(i for i, x in enumerate(inputs) if x.untyped_storage()._cdata == storage)
        offset = value.storage_offset() if shared else 0
        strides = value.stride() if every_stride and value.numel() else strides_that_matter(value)
        return (tuple(value.shape), strides, value.dtype, value.device, value.requires_grad, shared, offset, value.is_conj())
    return value


def strides_that_matter(t: torch.Tensor) -> tuple[int, ...]:
    """Those of dims of size 0 and 1 move no element, and empty tensors have none that count. But what is computed next may be laid out by
    them: those of results are as in eager, and gradients have others where autograd adds in place."""
    if t.numel() == 0:
        return ()
    return tuple(s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1)


def gradients(out: Any, tensors: list[Any]) -> list[Any]:
    """Gradients of everything differentiable, so that backward formulas run too."""
    sources = [t for t in tensors if t.requires_grad]
    ends = [o for o in tree_flatten(out)[0] if isinstance(o, torch.Tensor) and o.requires_grad]
    if not sources or not ends:
        return []
    return list(torch.autograd.grad(ends, sources, [torch.ones_like(e) for e in ends], allow_unused=True))
