"""Rows for factories, reductions, scans, indexing and joining."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

import torch

from dynamo.fake.layout import (
    as_float,
    broadcast,
    converted,
    dense,
    formatted,
    in_rows,
    iterate,
    like,
    promote,
    suggested_format,
    wrap_dims,
)
from dynamo.fake.overlap import overlaps_itself
from dynamo.fake.standins import plain_shapes
from dynamo.ops.facts import aten_name, overloads, writes_of

aten = torch.ops.aten
Tensor = torch.Tensor
Device = torch.device
Rule = Callable[..., Any]


def _like(
    on: Device,
    /,
    x: Tensor,
    *_: Any,
    dtype: torch.dtype | None = None,
    memory_format: torch.memory_format | None = None,
    **__: Any,
) -> Tensor:
    dtype = dtype or x.dtype
    if memory_format in (None, torch.preserve_format):
        return like(x, dtype)
    return formatted(x.shape, dtype, memory_format)


def _drawn(on: Device, /, size: Sequence[int], *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Tensor:
    return dense(size, dtype or torch.get_default_dtype())


def _drawn_int(on: Device, /, *args: Any, dtype: torch.dtype | None = torch.int64, **_: Any) -> Tensor:
    size = next(a for a in args if isinstance(a, (list, tuple)))
    return dense(size, dtype or torch.int64)


def _reduced(x: Tensor, dims: Sequence[int] | int | None, keepdim: bool, dtype: torch.dtype) -> Tensor:
    gone = set(wrap_dims(dims, x.dim()))
    if keepdim:
        return dense([1 if i in gone else n for i, n in enumerate(x.shape)], dtype)
    return dense([n for i, n in enumerate(x.shape) if i not in gone], dtype)


def _sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.int64


def _sum(device: Device, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return _reduced(x, dim, keepdim, dtype or _sum_dtype(x.dtype))


def _nansum(device: Device, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return NotImplemented if x.dtype.is_complex else _sum(device, x, dim, keepdim, dtype=dtype)


def _prod(device: Device, x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    return _reduced(x, dim, keepdim, dtype or _sum_dtype(x.dtype))


def _mean(device: Device, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    dtype = dtype or x.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        return NotImplemented
    return _reduced(x, dim, keepdim, dtype)


def _extreme(device: Device, x: Tensor, dim: Any = (), keepdim: bool = False) -> Any:
    dims = wrap_dims(dim, x.dim())
    if x.dtype.is_complex or any(x.shape[d] == 0 for d in dims if x.dim()):
        return NotImplemented
    return _reduced(x, dim, keepdim, x.dtype)


def _any(device: Device, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    dtype = torch.uint8 if x.dtype is torch.uint8 else torch.bool
    if isinstance(dim, Sequence) and not dim:  # no dimension, where other reductions take all of them
        return dense(x.shape, dtype)
    return _reduced(x, dim, keepdim, dtype)


def _var(count: int) -> Rule:
    def rule(device: Device, x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
        if not x.dtype.is_floating_point:
            return NotImplemented
        outs = [_reduced(x, dim, keepdim, x.dtype) for _ in range(count)]
        return outs[0] if count == 1 else tuple(outs)

    return rule


def _logsumexp(device: Device, x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    return _reduced(x, dim, keepdim, as_float(x.dtype)) if not x.dtype.is_complex else NotImplemented


def _vector_norm(
    device: Device, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Any:
    given = x.dtype.is_floating_point or x.dtype.is_complex
    if not given or dtype is not None or any(x.shape[d] == 0 for d in wrap_dims(dim, x.dim()) if x.dim()):
        return NotImplemented
    return _reduced(x, dim, keepdim, x.dtype.to_real())


def _flip(device: Device, x: Tensor, dims: Sequence[int]) -> Any:
    return like(x) if len(dims) == len(set(wrap_dims(dims, x.dim())) if dims else ()) else NotImplemented


def _scan(device: Device, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    wrap_dims(dim, x.dim())
    return iterate((x,), False, dtype or _sum_dtype(x.dtype)) if x.is_contiguous() else NotImplemented


def _cat(device: Device, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    if not tensors:
        return NotImplemented
    first = tensors[0]
    ndim = first.dim()
    if not ndim or any(t.dim() != ndim for t in tensors):
        return NotImplemented
    dim = wrap_dims(dim, ndim)[0]
    shape = list(first.shape)
    shape[dim] = 0
    for t in tensors:
        for i, n in enumerate(t.shape):
            if i == dim:
                shape[dim] += n
            elif n != shape[i]:
                return NotImplemented
    fmt = suggested_format(first)
    if any(suggested_format(t) is not fmt for t in tensors):
        fmt = torch.contiguous_format
    return formatted(shape, promote(tensors), fmt)


def _stack(device: Device, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    if not tensors or any(t.shape != tensors[0].shape for t in tensors):
        return NotImplemented
    first = tensors[0]
    dim = wrap_dims(dim, first.dim() + 1)[0]
    if dim == first.dim():
        return _cat(device, [t.unsqueeze(-1) for t in tensors], dim)
    whole = _cat(device, tensors, dim)
    if whole is NotImplemented:
        return NotImplemented
    return whole.view(*first.shape[:dim], len(tensors), *first.shape[dim:])


def _gather(device: Device, x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    if x.dim() != index.dim() or index.dtype is not torch.int64:
        return NotImplemented
    dim = wrap_dims(dim, x.dim())[0]
    if any(n > x.shape[i] for i, n in enumerate(index.shape) if i != dim):
        return NotImplemented
    return dense(index.shape, x.dtype)


def _scatter(device: Device, x: Tensor, dim: int, index: Tensor, source: Any, **_: Any) -> Any:
    if isinstance(source, Tensor) and source.dtype is not x.dtype:
        return NotImplemented
    if not index.numel():
        return dense(x.shape, x.dtype)  # eager's kernels leave at once, and the type of the index doesn't count
    if x.dim() != index.dim():
        return NotImplemented
    return dense(x.shape, x.dtype) if x.is_contiguous() else NotImplemented


def _scatter_into(device: Device, x: Tensor, dim: int, index: Tensor, *_: Any) -> Any:
    return NotImplemented if index.numel() else x


def _index(device: Device, x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """Integer indices, laid out as the iterator over source and indices is: torch's meta kernel leaves those out of account."""
    at = [i for i, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not given or len(indices) > x.dim() or any(index.dtype not in (torch.int64, torch.int32) for index in given):
        return NotImplemented
    if any(len({*sizes} - {1}) > 1 for sizes in zip_longest(*(reversed(index.shape) for index in given), fillvalue=1)):
        return NotImplemented  # eager's error is the meta kernel's
    picked = broadcast([index.shape for index in given])
    if 0 in picked or any(x.shape[i] == 0 for i in at):
        return NotImplemented
    are_adjacent = at[-1] - at[0] == len(at) - 1
    have_one_shape = len(given) == 1 or all(n != 1 for index in given for n in index.shape)
    if are_adjacent and have_one_shape and all(in_rows(t) for t in (x, *given)):
        return dense((*x.shape[: at[0]], *picked, *x.shape[at[-1] + 1 :]), x.dtype)
    before, rest = (at[0], x.dim() - at[-1] - 1) if are_adjacent else (0, x.dim() - len(at))
    if not are_adjacent:
        x = x.permute([*at, *(i for i in range(x.dim()) if i not in at)])
    shape, strides = list(x.shape), list(x.stride())
    shape[before : before + len(at)], strides[before : before + len(at)] = picked, [0] * len(picked)
    expanded = converted([index.expand(picked) for index in given], torch.int64)
    around = [index.reshape([1] * before + list(picked) + [1] * rest) for index in expanded]
    if device.type != "cpu" and len({index.stride() for index in around}) > 1:
        around = [index.contiguous() for index in around]
    return iterate([x.as_strided(shape, strides), *around], False, x.dtype)


def _index_put(device: Device, x: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    return like(x) if values.dtype is x.dtype else NotImplemented


def _index_fill(device: Device, x: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    is_plain = x.dim() > 0 and index.dim() <= 1 and index.dtype is torch.int64 and (x.dtype.is_complex or not isinstance(value, complex))
    return like(x) if is_plain and -x.dim() <= dim < x.dim() else NotImplemented


def _normal(device: Device, mean: Any, std: Any = 1.0, generator: Any = None) -> Any:
    """Drawn into an empty tensor."""
    given = [t for t in (mean, std) if isinstance(t, Tensor)]
    is_plain = all(t.dtype is given[0].dtype and t.dtype.is_floating_point for t in given)
    return dense(broadcast([t.shape for t in given]), given[0].dtype) if is_plain else NotImplemented


def _nonzero_static(device: Device, x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    return dense((size, x.dim()), torch.int64) if device.type == "cpu" and size >= 0 else NotImplemented


def _view_copy(device: Device, x: Tensor, size: Sequence[int]) -> Any:
    """A copy where there is no such view: torch's meta kernel refuses that."""
    rest = prod(n for n in size if n != -1)
    shape = [x.numel() // rest if n == -1 and rest else n for n in size]
    return dense(shape, x.dtype) if size.count(-1) < 2 and min(shape, default=0) >= 0 and prod(shape) == x.numel() else NotImplemented


def _triangle(device: Device, x: Tensor, diagonal: int = 0) -> Any:
    return dense(x.shape, x.dtype) if x.dim() >= 2 else NotImplemented


def _rolled(device: Device, x: Tensor, shifts: Any, dims: Any = ()) -> Any:
    """Dim by dim, two pieces put together, a dim as often as it is named; without dims, a flat copy."""
    shifts, dims = ([v] if isinstance(v, int) else list(v) for v in (shifts, dims))
    if device.type != "cpu" or x.numel() == 0 or len(shifts) != max(len(dims), 1):
        return dense(x.shape, x.dtype) if x.is_contiguous() else NotImplemented
    if not dims:
        return dense(x.shape, x.dtype)
    for shift, (dim,) in zip(shifts, (wrap_dims(d, x.dim()) for d in dims), strict=True):
        size = x.shape[dim]
        start = (size - shift) % size
        x = _cat(device, [x.narrow(dim, start, size - start), x.narrow(dim, 0, start)], dim)
    return x


def _isin(device: Device, x: Tensor, of: Tensor, *, assume_unique: bool = False, invert: bool = False) -> Any:
    return dense(x.shape, torch.bool)


def _sort(device: Device, x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    wrap_dims(dim, x.dim())
    return like(x), like(x, torch.int64)


def _drawn_integers(on: Device, x: Tensor, *_: Any, **kwargs: Any) -> Tensor:
    return _like(on, x, **kwargs)


def _stable_sort(device: Device, x: Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(device, x, dim)


def _masked_put(device: Device, x: Tensor, mask: Tensor, indices: Any, values: Tensor) -> Any:
    return like(x) if values.dtype is x.dtype and mask.dtype is torch.bool else NotImplemented


def _in_rows(op: Any, always: bool) -> Rule:
    """Torch's own rule says what is refused and which shape and dtype come out. What it lays out in rows has eager's strides in dims of one
    element too; with `always`, eager lays out all in rows."""

    def rule(device: Device, *args: Any, **kwargs: Any) -> Any:
        with plain_shapes():
            out = op(*args, **kwargs)
        return dense(out.shape, out.dtype) if always or out.is_contiguous() else out

    return rule


def _rotated(device: Device, x: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Flips, and a transposed view of one."""
    if x.dim() < 2 or len(dims) != 2 or len(set(wrap_dims(dims, x.dim()))) < 2 or k % 4 == 0:
        return NotImplemented
    return like(x) if k % 4 == 2 else like(x).transpose(*dims)


def _scattered_back(device: Device, grad: Tensor, sizes: Sequence[int], *_: Any) -> Tensor:
    return dense(sizes, grad.dtype)


def _foreach(rule: Rule) -> Rule:
    """A foreach op is its pointwise op, item by item; a list or one value for all as further operands."""

    def each(device: Device, xs: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        outs = []
        for i, x in enumerate(xs):
            mine = [a[i] if isinstance(a, (list, tuple)) else a for a in args]
            out = rule(device, x, *mine, **kwargs)
            if out is NotImplemented:
                return NotImplemented
            outs.append(out)
        return outs

    return each


def _foreach_of_a_number(rule: Rule) -> Rule:
    def each(device: Device, number: Any, xs: Sequence[Tensor]) -> Any:
        return NotImplemented if any(x.dtype is torch.bool for x in xs) else [rule(device, number, x) for x in xs]

    return each


def _foreach_in_place(device: Device, xs: Sequence[Tensor], *args: Any, **_: Any) -> Any:
    """Nothing is returned; only equal shapes and floats are waved through."""
    for others in args:
        if isinstance(others, (list, tuple)):
            for x, other in zip(xs, others, strict=False):
                if isinstance(other, Tensor) and other.shape != x.shape:
                    return NotImplemented
    return None if all(x.dtype.is_floating_point for x in xs) else NotImplemented


_FOREACH = """add sub mul div addcmul addcdiv sqrt neg abs exp log reciprocal sigmoid tanh lerp maximum minimum
clamp_min clamp_max pow rsqrt sign round floor ceil"""
_HAS_FOREACH = frozenset(_FOREACH.split())


def foreach_rule(op: Any, pointwise: Callable[[Any], Rule | None]) -> Rule | None:
    """`pointwise` knows the rules of single tensors."""
    each = aten_name(op)
    name = each.removeprefix("_foreach_").removesuffix("_")
    if each.endswith("_"):
        return _foreach_in_place if each == f"_foreach_{name}_" and name in _HAS_FOREACH else None
    if each != f"_foreach_{name}" or name not in _HAS_FOREACH or writes_of(op):
        return None
    if op._overloadname == "ScalarAndTensor":
        rule = pointwise(getattr(torch.ops.aten, name).Scalar)
        return _foreach_of_a_number(rule) if rule is not None else None
    return next((_foreach(rule) for rule in map(pointwise, overloads(name)) if rule is not None), None)


def _into_copy(op: Any) -> Rule:
    """A value put into a copy of the first argument, which keeps its gaps; torch 2.11 has the copy overlap itself where that one does."""

    def rule(on: Device, /, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not overlaps_itself(x.shape, x.stride()):
            return NotImplemented
        with plain_shapes():
            return op(like(x, x.dtype), *args, **kwargs)

    return rule


def _stack_into(on: Device, /, tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor) -> Any:
    """An `out` that is resized becomes dense, where a result of its own has the order of the tensors."""
    own = _stack(on, tensors, dim)
    if own is NotImplemented or not torch.can_cast(own.dtype, out.dtype):
        return NotImplemented
    return out if out.shape == own.shape else torch.ops.aten._resize_output_(out, own.shape, out.device)  # warns, which is a break


def _truth_into(op: Any) -> Rule:
    """`any` and `all` with `out=`: kernels write bool and uint8 whatever they read, which torch's own rule has the other way round."""

    def rule(on: Device, /, x: Tensor, *args: Any, out: Tensor, **kwargs: Any) -> Any:
        if out.dtype not in (torch.bool, torch.uint8):
            raise RuntimeError(f"{aten_name(op)} only supports bool tensor for result, got: {out.dtype}")
        if x.dtype is not torch.uint8:
            return NotImplemented
        with plain_shapes():
            return op(like(x, torch.bool), *args, out=out, **kwargs)

    return rule


def _has_mkl(on: Device, dim: Sequence[int]) -> bool:
    return on.type == "cpu" and bool(dim) and torch.backends.mkl.is_available()


def _fft(on: Device, /, x: Tensor, dim: Sequence[int], *_: Any) -> Any:
    return _transformed(x, _outer_first(x, dim), x.shape, x.dtype) if _has_mkl(on, dim) else NotImplemented


def _fft_of_real(on: Device, /, x: Tensor, dim: Sequence[int], _: int, onesided: bool) -> Any:
    if not _has_mkl(on, dim) or x.is_complex():
        return NotImplemented
    shape = list(x.shape)
    if onesided:
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1
    return _transformed(x, [*_outer_first(x, dim[:-1]), dim[-1]], shape, x.dtype.to_complex())


def _fft_to_real(on: Device, /, x: Tensor, dim: Sequence[int], _: int, last: int) -> Any:
    """Several dims: all but the last are transformed first."""
    if not _has_mkl(on, dim) or not x.is_complex():
        return NotImplemented
    if len(dim) > 1:
        x = _fft(on, x, dim[:-1])
    shape = list(x.shape)
    shape[dim[-1]] = last
    return _transformed(x, [dim[-1]], shape, x.dtype.to_real())


def _outer_first(x: Tensor, dim: Sequence[int]) -> list[int]:
    return sorted(dim, key=lambda d: -int(x.stride()[d]))


def _transformed(x: Tensor, dim: list[int], shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Dense, with the dims that are not transformed outside (mkl/SpectralOps.cpp, _exec_fft); torch's own rules differ."""
    dim = [d % x.dim() for d in dim]
    strides, step = [0] * x.dim(), 1
    for d in reversed([*_outer_first(x, _apart(x.dim(), dim)), *dim]):
        strides[d] = step
        step *= shape[d]
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def _apart(n: int, dim: Sequence[int]) -> list[int]:
    """The other dims, in the order that std::partition leaves them in."""
    order, first, last = list(range(n)), 0, n
    while True:
        while first < last and order[first] not in dim:
            first += 1
        if first == last:
            return order[:first]
        last -= 1
        while first < last and order[last] in dim:
            last -= 1
        if first == last:
            return order[:first]
        order[first], order[last] = order[last], order[first]
        first += 1


ROWS: dict[Any, Rule] = {
    aten._efficientzerotensor.default: _drawn,  # of torch's own, without memory, the meta tensor itself would come out of views
    aten.empty_like.default: _like,
    aten.zeros_like.default: _like,
    aten.ones_like.default: _like,
    aten.full_like.default: _like,
    aten.rand_like.default: _like,
    aten.randint_like.default: _drawn_integers,
    aten.randint_like.low_dtype: _drawn_integers,
    aten.rot90.default: _rotated,
    aten.sort.stable: _stable_sort,
    aten._unsafe_masked_index_put_accumulate.default: _masked_put,
    **{
        op: _in_rows(op, always=False)
        for name in ("upsample_bilinear2d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "grid_sampler_2d")
        for op in overloads(name)
        if not writes_of(op)
    },
    **{
        op: _in_rows(op, always=True)
        for op in (aten.diag_embed.default, aten.renorm.default, aten.index_add.default, aten.index_copy.default)
    },
    aten.randn_like.default: _like,
    aten.rand.default: _drawn,
    aten.randn.default: _drawn,
    aten.rand.generator: _drawn,
    aten.randn.generator: _drawn,
    aten.randint.default: _drawn_int,
    aten.randint.low: _drawn_int,
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.nansum.default: _nansum,
    aten.flip.default: _flip,
    aten.prod.dim_int: _prod,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.amax.default: _extreme,
    aten.amin.default: _extreme,
    aten.any.default: _any,
    aten.any.dim: _any,
    aten.any.dims: _any,
    aten.all.default: _any,
    aten.all.dim: _any,
    aten.all.dims: _any,
    **{op: _truth_into(op) for of in (aten.any, aten.all) for op in (of.out, of.dims_out, of.all_out)},
    aten.var.correction: _var(1),
    aten.std.correction: _var(1),
    aten.var_mean.correction: _var(2),
    aten.std_mean.correction: _var(2),
    aten.logsumexp.default: _logsumexp,
    aten.linalg_vector_norm.default: _vector_norm,
    aten.cumsum.default: _scan,
    aten.cumprod.default: _scan,
    aten.cat.default: _cat,
    aten.stack.default: _stack,
    aten.stack.out: _stack_into,
    aten.gather.default: _gather,
    aten.scatter.src: _scatter,
    aten.scatter.value: _scatter,
    aten.scatter_add.default: _scatter,
    aten.scatter_add_.default: _scatter_into,
    aten.index.Tensor: _index,
    aten._unsafe_index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    **dict.fromkeys((aten.normal.Tensor_Tensor, aten.normal.Tensor_float, aten.normal.float_Tensor), _normal),
    aten.nonzero_static.default: _nonzero_static,
    aten.view_copy.default: _view_copy,
    aten.tril.default: _triangle,
    aten.triu.default: _triangle,
    aten.roll.default: _rolled,
    aten.sort.default: _sort,
    aten.isin.Tensor_Tensor: _isin,
    aten.select_scatter.default: _into_copy(aten.select_scatter.default),
    aten.slice_scatter.default: _into_copy(aten.slice_scatter.default),
    aten.diagonal_scatter.default: _into_copy(aten.diagonal_scatter.default),
    aten._fft_c2c.default: _fft,
    aten._fft_r2c.default: _fft_of_real,
    aten._fft_c2r.default: _fft_to_real,
    aten.slice_backward.default: _scattered_back,
    aten.select_backward.default: _scattered_back,
}
