"""The one interface to sizes.

A dimension is a Python int today. Code outside this file may add and multiply dims through `Index`, and otherwise asks
the questions below, so that a symbolic dim needs a change here and in `affine.py` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Dim = int
Shape = tuple[Dim, ...]


def as_dim(value: Any) -> Dim:
    """A size as found in FX metadata (int, or a SymInt with a hint) as a Dim."""
    return int(value)


def as_shape(values: Sequence[Any]) -> Shape:
    return tuple(int(v) for v in values)


def numel(shape: Sequence[Dim]) -> Dim:
    total = 1
    for extent in shape:
        total *= extent
    return total


def hint(dim: Dim) -> int:
    """A concrete number for heuristics; never for correctness."""
    return dim


def contiguous_strides(shape: Sequence[Dim]) -> Shape:
    strides: list[Dim] = []
    running = 1
    for extent in reversed(shape):
        strides.append(running)
        running *= max(extent, 1)
    return tuple(reversed(strides))


def span(shape: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """Elements of storage that a strided layout touches, counted from its first element."""
    if any(extent == 0 for extent in shape):
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def is_dense(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """True when the layout fills its span without gaps or overlaps, in any dimension order."""
    expected = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= extent
    return True
