"""NumPy's functions over tensors: what captured graphs call where the program called NumPy.

Each takes its arguments as NumPy's function of the same name does, with tensors for arrays, dtypes of torch for NumPy's, and gives
a tensor of the values NumPy gives. The dtype of the result is put right by the caller, which asks NumPy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

np: Any
try:
    import numpy as np
except ImportError:  # then no program has an array, as torch has none
    np = None

T = torch.Tensor
Axis = int | Sequence[int] | None


def tensor_of(a: Any) -> T | None:
    """A tensor over an array's memory; None where torch can't have one, or its writes would go where NumPy allows none.

    An array over a tensor's memory (`x.numpy()` and its views) gives a view of that tensor, so that their aliasing is known.
    """
    if type(a) is not np.ndarray or not a.flags.writeable:
        return None
    root: Any = a
    while type(root.base) is np.ndarray:
        root = root.base
    try:
        made = torch.from_numpy(a)
    except (TypeError, ValueError):  # a dtype or strides that tensors don't have
        return None
    base = root.base
    if type(base) is torch.Tensor and base.layout == torch.strided and not base.requires_grad and base.dtype == made.dtype:
        bytes_in = made.data_ptr() - base.untyped_storage().data_ptr()
        if bytes_in % made.itemsize == 0:
            return torch.as_strided(base, made.shape, made.stride(), bytes_in // made.itemsize)
    return made


def array_of(t: T) -> Any:
    """The array over a tensor's memory."""
    return t.detach().numpy()


def number_of(t: T) -> Any:
    """The NumPy number in a tensor without dimensions."""
    return t.detach().numpy()[()]


def _axes(axis: Axis) -> Any:
    return axis if axis is None or isinstance(axis, int) else tuple(axis)


def sum(a: T, axis: Axis = None, dtype: torch.dtype | None = None, keepdims: bool = False) -> T:
    return torch.sum(a, _axes(axis) if axis is not None else tuple(range(a.ndim)), keepdims, dtype=dtype)


def mean(a: T, axis: Axis = None, dtype: torch.dtype | None = None, keepdims: bool = False) -> T:
    a = a if a.is_floating_point() or a.is_complex() else a.to(torch.float64)
    return torch.mean(a, _axes(axis) if axis is not None else tuple(range(a.ndim)), keepdims, dtype=dtype)


def _spread(fn: Callable[..., T]) -> Callable[..., T]:
    def spread(a: T, axis: Axis = None, ddof: int = 0, keepdims: bool = False) -> T:
        a = a if a.is_floating_point() else a.to(torch.float64)
        return fn(a, _axes(axis), correction=ddof, keepdim=keepdims)

    return spread


std = _spread(torch.std)
std.__name__ = std.__qualname__ = "std"
var = _spread(torch.var)
var.__name__ = var.__qualname__ = "var"


def prod(a: T, axis: int | None = None, keepdims: bool = False) -> T:
    return torch.prod(a) if axis is None and not keepdims else torch.prod(a, _one(axis), keepdims)


def _one(axis: Axis) -> int:
    if not isinstance(axis, int):
        raise NotImplementedError("several axes at once")
    return axis


def amax(a: T, axis: Axis = None, keepdims: bool = False) -> T:
    return torch.amax(a, _axes(axis) if axis is not None else (), keepdims)


def amin(a: T, axis: Axis = None, keepdims: bool = False) -> T:
    return torch.amin(a, _axes(axis) if axis is not None else (), keepdims)


def argmax(a: T, axis: int | None = None, keepdims: bool = False) -> T:
    return torch.argmax(a, axis, keepdims)


def argmin(a: T, axis: int | None = None, keepdims: bool = False) -> T:
    return torch.argmin(a, axis, keepdims)


def any(a: T, axis: int | None = None, keepdims: bool = False) -> T:
    return torch.any(a) if axis is None and not keepdims else torch.any(a, _one(axis), keepdims)


def all(a: T, axis: int | None = None, keepdims: bool = False) -> T:
    return torch.all(a) if axis is None and not keepdims else torch.all(a, _one(axis), keepdims)


def cumsum(a: T, axis: int | None = None, dtype: torch.dtype | None = None) -> T:
    return torch.cumsum(a.reshape(-1) if axis is None else a, 0 if axis is None else axis, dtype=dtype)


def cumprod(a: T, axis: int | None = None, dtype: torch.dtype | None = None) -> T:
    return torch.cumprod(a.reshape(-1) if axis is None else a, 0 if axis is None else axis, dtype=dtype)


def clip(a: T, a_min: Any = None, a_max: Any = None) -> T:
    return torch.clamp(a, a_min, a_max) if a_min is not None or a_max is not None else a.clone()


def where(condition: T, x: Any, y: Any) -> T:
    return torch.where(condition.to(torch.bool), x, y)


def reshape(a: T, *shape: Any) -> T:
    return a.reshape(*shape)


def ravel(a: T) -> T:
    return a.reshape(-1)


def flatten(a: T) -> T:
    return a.reshape(-1).clone()


def transpose(a: T, *axes: Any) -> T:
    given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return a.permute(*(given if given else reversed(range(a.ndim))))


def swapaxes(a: T, axis1: int, axis2: int) -> T:
    return a.transpose(axis1, axis2)


def moveaxis(a: T, source: Any, destination: Any) -> T:
    return torch.movedim(a, source, destination)


def expand_dims(a: T, axis: int) -> T:
    return a.unsqueeze(_one(axis))


def squeeze(a: T, axis: int | None = None) -> T:
    return a.squeeze() if axis is None else a.squeeze(axis)


def copy(a: T) -> T:
    return a.clone(memory_format=torch.contiguous_format)


def astype(a: T, dtype: torch.dtype) -> T:
    return a.to(dtype, copy=True)


def dot(a: T, b: T) -> T:
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if b.ndim > 2:
        raise NotImplementedError("dot with more than two dimensions")
    kind = torch.promote_types(a.dtype, b.dtype)
    return torch.matmul(a.to(kind), b.to(kind))


def outer(a: T, b: T) -> T:
    return torch.outer(a.reshape(-1), b.reshape(-1))


def einsum(equation: str, *operands: T) -> T:
    return torch.einsum(equation, *operands)


def concatenate(arrays: Sequence[T], axis: int | None = 0) -> T:
    return torch.cat([a.reshape(-1) for a in arrays], 0) if axis is None else torch.cat(list(arrays), axis)


def stack(arrays: Sequence[T], axis: int = 0) -> T:
    return torch.stack(list(arrays), axis)


def vstack(tup: Sequence[T]) -> T:
    return torch.vstack(list(tup))


def hstack(tup: Sequence[T]) -> T:
    return torch.hstack(list(tup))


def sort(a: T, axis: int = -1) -> T:
    return torch.sort(a, axis).values


def roll(a: T, shift: int, axis: int | None = None) -> T:
    return torch.roll(a, shift) if axis is None else torch.roll(a, shift, axis)


def tile(A: T, reps: Any) -> T:
    return torch.tile(A, (reps,) if isinstance(reps, int) else tuple(reps))


def zeros_like(a: T, dtype: torch.dtype | None = None) -> T:
    return torch.zeros_like(a, dtype=dtype)


def ones_like(a: T, dtype: torch.dtype | None = None) -> T:
    return torch.ones_like(a, dtype=dtype)


def full_like(a: T, fill_value: Any, dtype: torch.dtype | None = None) -> T:
    return torch.full_like(a, fill_value, dtype=dtype)


def norm(x: T) -> T:
    return torch.linalg.vector_norm(x if x.is_floating_point() or x.is_complex() else x.to(torch.float64))


def inv(a: T) -> T:
    return torch.linalg.inv(a)


def det(a: T) -> T:
    return torch.linalg.det(a)


def solve(a: T, b: T) -> T:
    return torch.linalg.solve(a, b)


def trace(a: T) -> T:
    return torch.trace(a)


def diagonal(a: T, offset: int = 0, axis1: int = 0, axis2: int = 1) -> T:
    return torch.diagonal(a, offset, axis1, axis2)


def diag(v: T, k: int = 0) -> T:
    return torch.diag(v, k)


def tril(m: T, k: int = 0) -> T:
    return torch.tril(m, k)


def triu(m: T, k: int = 0) -> T:
    return torch.triu(m, k)


def round(a: T, decimals: int = 0) -> T:
    if decimals:
        raise NotImplementedError("rounding to digits")
    return torch.round(a) if a.is_floating_point() else a.clone()


def diff(a: T, n: int = 1, axis: int = -1) -> T:
    return torch.diff(a, n, axis)


def array(a: T, dtype: torch.dtype | None = None) -> T:
    """`np.array(x)` and `np.copy(x)`: new memory in C order (or the order of `x`; the caller compares)."""
    return a.to(dtype, copy=True) if dtype is not None else a.clone()


def asarray(a: T, dtype: torch.dtype | None = None) -> T:
    return a.to(dtype) if dtype is not None and dtype != a.dtype else a.detach()
