"""Views: new index maps over the same buffer. Nothing is computed and nothing is copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inductor.ir.affine import ZERO, Index, const, digits
from inductor.ir.dims import Dim, Shape, as_shape, contiguous_strides, is_one, no_elements, span, start_in
from inductor.lowering.context import Context, Decline, normal_dims
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor, dim_indices, of_strides


def wrap(position: int, ndim: int) -> int:
    return position % max(ndim, 1)


def reshape(x: Tensor, shape: Shape) -> Tensor:
    """Any reshape: through the linear position, which simplifies to plain strides where that is possible."""
    where = dim_indices(shape)
    if x.shape == shape:
        return x
    if no_elements(shape):
        return of_strides(x.buffer, shape, contiguous_strides(shape), x.dtype)
    linear: Index = ZERO
    for position, stride in zip(where, contiguous_strides(shape), strict=True):
        linear = linear + position * stride
    old = [digits(linear // stride, extent)[1] for extent, stride in zip(x.shape, contiguous_strides(x.shape), strict=True)]
    return x.remap(shape, old)


@lowers("view reshape _unsafe_view _reshape_alias view_copy", "view", any_dtype=True)
def _view(ctx: Context, x: Tensor, *sizes: Any) -> Tensor:
    return reshape(x, as_shape(ctx.meta.shape))


@lowers("flatten.using_ints unflatten.int", "view", any_dtype=True)
def _flatten(ctx: Context, x: Tensor, *sizes: Any) -> Tensor:
    return reshape(x, as_shape(ctx.meta.shape))


@lowers("alias alias_copy detach detach_copy lift_fresh lift_fresh_copy", "view", any_dtype=True)
def _alias(ctx: Context, x: Tensor) -> Tensor:
    return x


@lowers("permute permute_copy", "view", any_dtype=True)
def _permute(ctx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    return permute(x, [wrap(d, x.ndim) for d in dims])


def permute(x: Tensor, order: Sequence[int]) -> Tensor:
    shape = tuple(x.shape[d] for d in order)
    new = dim_indices(shape)
    where: list[Index] = [ZERO] * x.ndim
    for position, d in enumerate(order):
        where[d] = new[position]
    return x.remap(shape, where)


@lowers("t t_copy", "view", any_dtype=True)
def _t(ctx: Context, x: Tensor) -> Tensor:
    return permute(x, list(reversed(range(x.ndim))))


@lowers("transpose.int transpose_copy.int", "view", any_dtype=True)
def _transpose(ctx: Context, x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.ndim))
    if order:
        a, b = wrap(first, x.ndim), wrap(second, x.ndim)
        order[a], order[b] = order[b], order[a]
    return permute(x, order)


@lowers("expand expand_copy", "view", any_dtype=True)
def _expand(ctx: Context, x: Tensor, sizes: Sequence[int], *, implicit: bool = False) -> Tensor:
    return expand(x, as_shape(ctx.meta.shape))


def expand(x: Tensor, shape: Shape) -> Tensor:
    new = dim_indices(shape)[len(shape) - x.ndim :]
    return x.remap(shape, [ZERO if n == 1 else position for n, position in zip(x.shape, new, strict=True)])


@lowers("squeeze squeeze.dim squeeze.dims squeeze_copy squeeze_copy.dim", "view", any_dtype=True)
def _squeeze(ctx: Context, x: Tensor, dims: Sequence[int] | int | None = None) -> Tensor:
    chosen = range(x.ndim) if dims is None else normal_dims(dims, x.ndim) if dims != [] else []
    kept = [k for k in range(x.ndim) if not (k in chosen and is_one(x.shape[k]))]
    shape = tuple(x.shape[k] for k in kept)
    new = dim_indices(shape)
    return x.remap(shape, [new[kept.index(k)] if k in kept else ZERO for k in range(x.ndim)])


@lowers("unsqueeze unsqueeze_copy", "view", any_dtype=True)
def _unsqueeze(ctx: Context, x: Tensor, position: int) -> Tensor:
    at = position % (x.ndim + 1)
    shape = x.shape[:at] + (1,) + x.shape[at:]
    new = dim_indices(shape)
    return x.remap(shape, new[:at] + new[at + 1 :])


def slice_dim(x: Tensor, d: int, start: Dim, length: Dim, step: Dim = 1) -> Tensor:
    shape = x.shape[:d] + (length,) + x.shape[d + 1 :]
    where = list(dim_indices(shape))
    where[d] = where[d] * step + start
    return x.remap(shape, where)


@lowers("slice.Tensor slice_copy.Tensor", "view", any_dtype=True)
def _slice(ctx: Context, x: Tensor, d: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    at = wrap(d, x.ndim)
    return slice_dim(x, at, start_in(start, x.shape[at]), as_shape(ctx.meta.shape)[at], step)


@lowers("narrow", "view", any_dtype=True)
def _narrow(ctx: Context, x: Tensor, d: int, start: int, length: int) -> Tensor:
    if not isinstance(start, int):
        raise Decline
    at = wrap(d, x.ndim)
    return slice_dim(x, at, start_in(start, x.shape[at]), length)


@lowers("select.int select_copy.int", "view", any_dtype=True)
def _select(ctx: Context, x: Tensor, d: int, position: int) -> Tensor:
    return select_dim(x, wrap(d, x.ndim), position)


def select_dim(x: Tensor, d: int, position: int) -> Tensor:
    shape = x.shape[:d] + x.shape[d + 1 :]
    new = dim_indices(shape)
    return x.remap(shape, (*new[:d], const(position % x.shape[d]), *new[d:]))


@lowers("split.Tensor split_with_sizes split_copy.Tensor split_with_sizes_copy chunk", "view", any_dtype=True)
def _split(ctx: Context, x: Tensor, sizes: Any, d: int = 0) -> tuple[Tensor, ...]:
    at, start, parts = wrap(d, x.ndim), 0, []
    for part in ctx.meta:
        length = as_shape(part.shape)[at]
        parts.append(slice_dim(x, at, start, length))
        start += length
    return tuple(parts)


@lowers("unbind.int unbind_copy.int", "view", any_dtype=True)
def _unbind(ctx: Context, x: Tensor, d: int = 0) -> tuple[Tensor, ...]:
    at = wrap(d, x.ndim)
    return tuple(select_dim(x, at, k) for k in range(x.shape[at]))


@lowers("diagonal diagonal_copy", "view", any_dtype=True)
def _diagonal(ctx: Context, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    a, b = wrap(dim1, x.ndim), wrap(dim2, x.ndim)
    shape = as_shape(ctx.meta.shape)
    new = list(dim_indices(shape))
    along = new.pop()
    where = []
    for k in range(x.ndim):
        shift = max(-offset, 0) if k == a else max(offset, 0) if k == b else 0
        where.append(along + shift if k in (a, b) else new.pop(0))
    return x.remap(shape, where)


@lowers("as_strided", "view", any_dtype=True)
def _as_strided(ctx: Context, x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Tensor:
    """Only the start of the buffer counts in as_strided, so this reads the buffer itself."""
    view = x.view()
    if view is None:
        raise Decline
    start = view.offset if offset is None else view.offset + offset - ctx.begin
    if start < 0 or start + span(as_shape(size), as_shape(stride)) > ctx.program.buffers[x.buffer].size:
        raise Decline
    return of_strides(x.buffer, as_shape(size), stride, x.dtype, start)


@lowers("unfold unfold_copy", "view", any_dtype=True)
def _unfold(ctx: Context, x: Tensor, d: int, size: int, step: int) -> Tensor:
    if x.ndim == 0:
        raise Decline
    at, shape = wrap(d, x.ndim), as_shape(ctx.meta.shape)
    new = list(dim_indices(shape))
    window = new.pop()
    new[at] = new[at] * step + window
    return x.remap(shape, new)


@lowers("flip", "native")
def _flip(ctx: Context, x: Tensor, dims: Sequence[int]) -> Tensor:
    flipped = normal_dims(dims, x.ndim) if dims else []

    def where(new: Sequence[Index]) -> list[Index]:
        return [const(n - 1) - position if k in flipped else position for k, (n, position) in enumerate(zip(x.shape, new, strict=True))]

    return ctx.make(x.shape, x.dtype, lambda new: x.load(where(new)), ctx.meta_strides(x.shape))


@lowers("roll", "native")
def _roll(ctx: Context, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    if not dims or no_elements(x.shape) or x.ndim == 0:
        raise Decline
    moved = dict.fromkeys(range(x.ndim), 0)
    for shift, d in zip(shifts, dims, strict=True):
        moved[wrap(d, x.ndim)] += shift

    def where(new: Sequence[Index]) -> list[Index]:
        return [(position + (-moved[k]) % n) % n for k, (n, position) in enumerate(zip(x.shape, new, strict=True))]

    return ctx.make(x.shape, x.dtype, lambda new: x.load(where(new)), ctx.meta_strides(x.shape))


@lowers("repeat", "native")
def _repeat(ctx: Context, x: Tensor, repeats: Sequence[int]) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    skip = len(shape) - x.ndim
    if no_elements(shape):
        raise Decline
    return ctx.make(shape, x.dtype, lambda new: x.load([p % n for p, n in zip(new[skip:], x.shape, strict=True)]))
