"""Inputs of programs: numbers by a seed, and the ways in which they can lie in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

_SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, 1e-40, -1e-7, 3e4, -7e4, 1e30, -2.5, 3.5, 88.8)
_SIMPLE = tuple(n / 4 for n in range(-16, 17))


def values(count: int, dtype: torch.dtype, fill: str, seed: int) -> torch.Tensor:
    """`count` numbers, always the same for one seed."""
    generator = torch.Generator().manual_seed(seed)
    pick = torch.randint(0, 1 << 30, (count,), generator=generator)
    if fill == "zeros":
        return torch.zeros(count, dtype=dtype)
    if dtype == torch.bool:
        return pick % 2 == 0
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if fill == "special":
            table = torch.tensor([0, 1, 2, info.max, info.min, info.max - 1, max(info.min, -1), 7], dtype=dtype)
            return table[pick % len(table)]
        low = 0 if fill == "positive" else max(info.min, -9)
        return (pick % 17 + low).to(dtype)
    if fill == "special":
        return torch.tensor(_SPECIAL, dtype=torch.float64).to(dtype)[pick % len(_SPECIAL)]
    if fill == "simple":
        return torch.tensor(_SIMPLE, dtype=torch.float64).to(dtype)[pick % len(_SIMPLE)]
    normal = torch.randn(count, generator=generator, dtype=torch.float64)
    return (normal.abs() + 0.1 if fill == "positive" else normal).to(dtype)


def make(shape: Sequence[int], dtype: torch.dtype, fill: str = "normal", layout: str = "dense", seed: int = 0) -> torch.Tensor:
    """An input: its values, and how they lie in memory."""
    shape = tuple(shape)
    rank, count = len(shape), math.prod(shape)
    if layout == "transposed" and rank >= 2:
        turned = (*shape[:-2], shape[-1], shape[-2])
        return values(count, dtype, fill, seed).view(turned).transpose(-1, -2)
    if layout == "reversed" and rank >= 2:
        return values(count, dtype, fill, seed).view(shape[::-1]).permute(*range(rank - 1, -1, -1))
    if layout == "channels_last" and rank >= 3:  # the second dim varies fastest, as torch's memory formats for images and volumes have it
        last = (shape[0], *shape[2:], shape[1])
        return values(count, dtype, fill, seed).view(last).movedim(-1, 1)
    if layout == "strided" and rank >= 1:
        return values(count * 2, dtype, fill, seed).view(*shape[:-1], shape[-1] * 2)[..., ::2]
    if layout == "offset":
        return values(count + 3, dtype, fill, seed)[3:].view(shape)
    if layout == "expanded" and rank >= 1:
        return values(math.prod(shape[1:]), dtype, fill, seed).view(1, *shape[1:]).expand(shape)
    return values(count, dtype, fill, seed).view(shape)


def comparable(value: Any) -> Any:
    """What a program gave, as lists of tensors, numbers and None: texts as their code points, mappings as pairs, objects as attributes."""
    if value is None or isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, str):
        return [ord(c) for c in value]
    if isinstance(value, dict):
        return [[comparable(key), comparable(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [comparable(item) for item in value]
    if isinstance(value, (BaseException, type)) or not hasattr(value, "__dict__"):
        return comparable((value if isinstance(value, type) else type(value)).__name__)
    return comparable(vars(value))
