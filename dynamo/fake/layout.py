"""Shapes, strides and dtypes as eager's kernels choose them.

`iterator_strides` follows TensorIterator (aten/src/ATen/TensorIterator.cpp: compute_shape, fast_set_up, reorder_dimensions,
allocate_or_resize_outputs); `promote` follows `at::result_type` (aten/src/ATen/native/TypeProperties.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

Tensor = torch.Tensor
META = torch.device("meta")
_empty = torch.empty
_empty_strided = torch.empty_strided


def dense(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A contiguous meta tensor."""
    return _empty(shape, dtype=dtype, device=META)


def strided(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
    return _empty_strided(shape, strides, dtype=dtype, device=META)


def like(t: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`empty_like` with preserve_format."""
    dtype = dtype or t.dtype
    if t.is_contiguous() or is_dense(t):
        return _empty_strided(t.shape, t.stride(), dtype=dtype, device=META)
    return _iterate(t.shape, (t,), dtype)


def formatted(shape: Sequence[int], dtype: torch.dtype, memory_format: torch.memory_format) -> Tensor:
    return _empty(shape, dtype=dtype, device=META, memory_format=memory_format)


def suggested_format(t: Tensor) -> torch.memory_format:
    """`suggest_memory_format`: channels last if the strides are ordered so, whatever else they could mean."""
    if t.layout is torch.strided:
        if t.dim() == 4 and _channels_last_order(t, (1, 3, 2, 0)):
            return torch.channels_last
        if t.dim() == 5 and _channels_last_order(t, (1, 4, 3, 2, 0)):
            return torch.channels_last_3d
    return torch.contiguous_format


def _channels_last_order(t: Tensor, order: tuple[int, ...]) -> bool:
    """c10/core/MemoryFormat.h, is_channels_last_strides_2d_s4."""
    shape, strides = t.shape, t.stride()
    if strides[1] == 0:
        return False
    least = 0
    for d in order:
        if shape[d] == 0 or strides[d] < least:
            return False
        if d == 0 and least == strides[1]:
            return False
        least = strides[d]
        if shape[d] > 1:
            least *= shape[d]
    return True


def is_dense(t: Tensor) -> bool:
    """Non-overlapping and dense: a permutation of a contiguous tensor."""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size == 1:
            continue
        if size == 0:
            return True
        if stride != expected:
            return False
        expected *= size
    return True


def in_rows(t: Tensor) -> bool:
    """Contiguous, and dims of one element have the strides they have in a new tensor: iterators look at those too."""
    step = 1
    for size, stride in zip(reversed(t.shape), reversed(t.stride()), strict=True):
        if stride != step:
            return False
        step *= size
    return True


def broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Raises RuntimeError as eager does when the shapes don't fit."""
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for shape in shapes:
        at = ndim - len(shape)
        for size in shape:
            have = out[at]
            if size != have:
                if have == 1:
                    out[at] = size
                elif size != 1:
                    raise RuntimeError(
                        f"The size of tensor a ({have}) must match the size of tensor b ({size}) at non-singleton dimension {at}"
                    )
            at += 1
    return tuple(out)


def converted(operands: Sequence[Tensor], dtype: torch.dtype) -> Sequence[Tensor]:
    """The operands, copied to the dtype that is computed in where they have another: copies of those with gaps are laid out anew."""
    if all(t.dtype is dtype for t in operands):
        return operands
    return [t if t.dtype is dtype else like(t, dtype) for t in operands]


def iterate(operands: Sequence[Tensor], scalars: bool, dtype: torch.dtype) -> Tensor:
    """The output a TensorIterator over `operands` allocates. `scalars`: Python numbers take part too."""
    first = operands[0]
    shape: tuple[int, ...] = first.shape
    same = not scalars or not shape
    for t in operands:
        if t.shape != shape:
            same = False
            shape = broadcast([o.shape for o in operands])
            break
    if same:
        if all(t.is_contiguous() for t in operands):
            return _empty(shape, dtype=dtype, device=META)
        if len(shape) == 4 and all(t.is_contiguous(memory_format=torch.channels_last) for t in operands):
            return _empty(shape, dtype=dtype, device=META, memory_format=torch.channels_last)
        strides = first.stride()
        if all(t.stride() == strides for t in operands) and is_dense(first):
            return _empty_strided(shape, strides, dtype=dtype, device=META)
    return _iterate(shape, operands, dtype)


def _iterate(shape: Sequence[int], operands: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    ndim = len(shape)
    if ndim < 2:
        return _empty(shape, dtype=dtype, device=META)
    perm = _fastest_first(shape, [_iterator_stride(shape, t) for t in operands])
    if perm == list(range(ndim - 1, -1, -1)):
        return _empty(shape, dtype=dtype, device=META)
    strides = [0] * ndim
    step = 1
    for d in perm:
        strides[d] = step
        step *= shape[d]
    return _empty_strided(shape, strides, dtype=dtype, device=META)


def _iterator_stride(shape: Sequence[int], t: Tensor) -> list[int]:
    missing = len(shape) - t.dim()
    strides = [0] * missing
    for i, (size, stride) in enumerate(zip(t.shape, t.stride(), strict=True)):
        strides.append(0 if size == 1 and shape[missing + i] != 1 else stride)
    return strides


def _fastest_first(shape: Sequence[int], all_strides: list[list[int]]) -> list[int]:
    """Insertion sort with ambiguous comparisons, as in TensorIteratorBase::reorder_dimensions."""
    ndim = len(shape)
    perm = list(range(ndim - 1, -1, -1))
    for i in range(1, ndim):
        at = i
        for before in range(i - 1, -1, -1):
            order = _compare(perm[before], perm[at], shape, all_strides)
            if order > 0:
                perm[before], perm[at] = perm[at], perm[before]
                at = before
            elif order < 0:
                break
    return perm


def _compare(d0: int, d1: int, shape: Sequence[int], all_strides: list[list[int]]) -> int:
    for strides in all_strides:
        s0, s1 = strides[d0], strides[d1]
        if s0 == 0 or s1 == 0:
            continue
        if s0 < s1:
            return -1
        if s0 > s1 or shape[d0] > shape[d1]:
            return 1
    return 0


_NUMBER_DTYPE = {bool: torch.bool, int: torch.int64}


def promote(operands: Sequence[Any]) -> torch.dtype:
    """The common dtype of tensors and Python numbers."""
    found: torch.dtype | None = None
    for x in operands:
        if isinstance(x, Tensor):
            if found is None:
                found = x.dtype
            elif found is not x.dtype:
                return _promote_by_category(operands)
    if found is None:
        return _promote_by_category(operands)
    for x in operands:
        if not isinstance(x, Tensor) and not _absorbs(found, x):
            return _promote_by_category(operands)
    return found


def _absorbs(dtype: torch.dtype, number: Any) -> bool:
    kind = type(number)
    if kind is int:
        return dtype is not torch.bool
    if kind is float:
        return dtype.is_floating_point or dtype.is_complex
    return kind is bool or dtype.is_complex


def _promote_by_category(operands: Sequence[Any]) -> torch.dtype:
    with_dims: torch.dtype | None = None
    zero_dim: torch.dtype | None = None
    number: torch.dtype | None = None
    for x in operands:
        if isinstance(x, Tensor):
            if x.dim():
                with_dims = _both(with_dims, x.dtype)
            else:
                zero_dim = _both(zero_dim, x.dtype)
        else:
            number = _both(number, number_dtype(x))
    result = _combine(with_dims, _combine(zero_dim, number))
    if result is None:
        raise ValueError("no operands to promote")
    return result


def number_dtype(x: Any) -> torch.dtype:
    known = _NUMBER_DTYPE.get(type(x))
    if known is not None:
        return known
    default = torch.get_default_dtype()
    return default.to_complex() if isinstance(x, complex) else default


def _both(a: torch.dtype | None, b: torch.dtype) -> torch.dtype:
    return b if a is None else torch.promote_types(a, b)


def _combine(higher: torch.dtype | None, lower: torch.dtype | None) -> torch.dtype | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return higher.to_complex() if lower.is_complex else higher
    if higher is torch.bool or lower.is_floating_point or lower.is_complex:
        return torch.promote_types(higher, lower)
    return higher


def as_float(dtype: torch.dtype) -> torch.dtype:
    """What unary float ops make of integers: the default dtype."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


def wrap_dims(dims: Sequence[int] | int | None, ndim: int) -> list[int]:
    """Non-negative dims; None or an empty list means all. Raises IndexError like eager."""
    if ndim > 64:
        raise RuntimeError("only tensors with up to 64 dims are supported")
    if dims is None:
        return list(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    if not dims:
        return list(range(ndim))
    reach = ndim or 1
    for d in dims:
        if not -reach <= d < reach:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-reach}, {reach - 1}], but got {d})")
    wrapped = [d % reach for d in dims]
    if len(set(wrapped)) < len(wrapped):
        twice = next(d for d in wrapped if wrapped.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return wrapped


def numel(shape: Sequence[int]) -> int:
    return prod(shape)
