"""Composite operators that go another way for tensors without data than for those with: what takes eager's way for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynamo.fake.number_checks import require
from dynamo.ops.facts import ONE_HOT

aten = torch.ops.aten
Tensor = torch.Tensor


def _one_hot(index: Tensor, num_classes: int = -1) -> Tensor:
    """Torch's own one, for tensors without data, takes any class; eager refuses those out of range, as this `gather` does."""
    if num_classes <= 0 or index.dtype is not torch.int64 or not index.numel():
        return torch.nn.functional.one_hot(index, num_classes)
    classes = torch.arange(num_classes, device=index.device)
    return torch.eq(classes.gather(0, index.reshape(-1)).view(*index.shape, 1), classes).to(torch.int64)


def _max_pool1d(pool: Callable[..., Any]) -> Callable[..., Any]:
    """Where no gradient is wanted, eager's CPU kernel writes a row-major result; the way with indices goes through images."""

    def pooled(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = pool(x, *args, **kwargs)
        has_indices = not isinstance(result, Tensor)
        if has_indices or x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled()):
            return result
        require(x.dtype.is_floating_point, f"not implemented for {x.dtype}")
        return result.contiguous()

    return pooled


COMPOSITES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(ONE_HOT, _one_hot),
    **{f: _max_pool1d(f) for f in (torch.nn.functional.max_pool1d, torch.max_pool1d, aten.max_pool1d, aten.max_pool1d.default)},
}
