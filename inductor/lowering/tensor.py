"""A tensor while lowering: a buffer and the map from the tensor's own dims to an element of that buffer.

Views cost nothing here: they are new maps over the same buffer. The map is an `Index` over axes named `d0, d1, ...`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from inductor.ir import types
from inductor.ir.affine import ZERO, Axis, Index, const, of_atom
from inductor.ir.dims import Dim, Shape, is_one, no_elements
from inductor.ir.expr import Expr, load, widen
from inductor.ir.nest import View


def dim(position: int, extent: Dim) -> Axis:
    return Axis(f"d{position}", extent)


def dim_indices(shape: Sequence[Dim]) -> tuple[Index, ...]:
    return tuple(of_atom(dim(k, n)) for k, n in enumerate(shape))


@dataclass(frozen=True)
class Tensor:
    buffer: str
    shape: Shape
    dtype: torch.dtype
    index: Index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def type(self) -> str:
        return types.of_torch(self.dtype)

    def at(self, where: Sequence[Index]) -> Index:
        """The buffer element of one tensor element."""
        return self.index.substitute({dim(k, n): where[k] for k, n in enumerate(self.shape)})

    def load(self, where: Sequence[Index]) -> Expr:
        """One element, in its compute type."""
        return widen(load(self.buffer, self.type, self.at(where)))

    def broadcast_load(self, where: Sequence[Index]) -> Expr:
        """One element under right-aligned broadcasting to the rank of `where`."""
        skip = len(where) - self.ndim
        return self.load([ZERO if n == 1 else w for n, w in zip(self.shape, where[skip:], strict=True)])

    def remap(self, shape: Shape, where: Sequence[Index]) -> Tensor:
        """A view of another shape; `where` gives this tensor's indices in terms of the new dims."""
        return replace(self, shape=shape, index=self.at(where))

    def view(self) -> View | None:
        """The same tensor as strides and offset, or None when its map is not affine."""
        if not self.index.is_affine or any(not a.name.startswith("d") for a in self.index.axes):
            return None
        strides = [self.index.coef(dim(k, n)) for k, n in enumerate(self.shape)]
        if no_elements(self.shape):
            return View(self.buffer, self.shape, tuple(strides), 0)
        return View(self.buffer, self.shape, _settle_strides(self.shape, strides), self.index.const)


def _settle_strides(shape: Shape, strides: list[Dim]) -> Shape:
    """Dims of size 1 have no stride in the map; give them the one a contiguous tensor would have."""
    out = list(strides)
    running = 1
    for k in range(len(shape) - 1, -1, -1):
        if is_one(shape[k]):
            out[k] = running
        running = max(running, out[k] * shape[k])
    return tuple(out)


def of_strides(buffer: str, shape: Shape, strides: Sequence[Dim], dtype: torch.dtype, offset: Dim = 0) -> Tensor:
    index = const(offset)
    for where, stride in zip(dim_indices(shape), strides, strict=True):
        index = index + where * stride
    return Tensor(buffer, shape, dtype, index)
