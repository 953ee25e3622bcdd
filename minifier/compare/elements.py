"""Numbers element by element: their class, their spacing, where they are."""

from __future__ import annotations

import torch


def classes(value: torch.Tensor) -> torch.Tensor:
    """0 for a number, 1 for NaN, 2 and 3 for infinity with its sign; of complex numbers that of both parts."""
    if value.is_complex():
        parts = torch.view_as_real(value.resolve_conj())
        return classes(parts[..., 0]) * 4 + classes(parts[..., 1])
    return value.isnan().to(torch.int8) + 2 * value.isposinf().to(torch.int8) + 3 * value.isneginf().to(torch.int8)


def spacing(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One unit in the last place of a dtype at each float64 value; at zero and below that of the smallest normal number."""
    info = torch.finfo(dtype)
    size = value.abs().to(torch.float64).clamp(min=info.tiny).nan_to_num(posinf=info.max)
    return torch.exp2(torch.floor(torch.log2(size))) * info.eps


def places(chosen: torch.Tensor) -> list[tuple[int, ...]]:
    """The indices of the elements that are chosen, in order."""
    return [tuple(int(n) for n in row) for row in chosen.nonzero()[:16]]
