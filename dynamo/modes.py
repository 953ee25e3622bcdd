"""torch's global modes as one value that can be put back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_DEVICES = ("cpu", "cuda")

# getter -> setter; each pair is one mode
_MODES: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
)


def snapshot() -> Callable[[], None]:
    """The modes as they are now; calling the result puts back those that have changed since."""
    values = [get() for get, _ in _MODES]
    autocast = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _DEVICES]

    def restore() -> None:
        for (get, put), value in zip(_MODES, values, strict=True):
            if get() != value:
                put(value)
        for device, enabled, dtype in autocast:
            if torch.is_autocast_enabled(device) != enabled:
                torch.set_autocast_enabled(device, enabled)
            if torch.get_autocast_dtype(device) != dtype:
                torch.set_autocast_dtype(device, dtype)

    return restore
