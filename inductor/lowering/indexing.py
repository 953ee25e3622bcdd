"""Indexing: gathers are loads with computed indices, scatters are stores with them.

Index values are checked by `checked`: one that is out of range reads element 0 and makes the call raise afterwards, as eager
would have before. Only `x[i]` and its kin count negative values from the end; gather and the like refuse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from inductor.ir import types
from inductor.ir.affine import ZERO, Axis, Index, of_atom
from inductor.ir.dims import Dim, as_shape, contiguous_strides, no_elements, numel, start_in
from inductor.ir.expr import Expr, call, cast, const, index_value, load, masked, widen
from inductor.ir.nest import Store
from inductor.lowering.context import Context, Decline, broadcast_shape, loop_axes, to_storage
from inductor.lowering.factory import constant
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor, dim
from inductor.lowering.view import wrap


def checked(value: Expr, extent: Dim, wraps: bool) -> Expr:
    """An index value in 0..extent-1; with `wraps`, negative ones count from the end."""
    position = cast(value, "i64")
    if wraps:
        position = call("where", call("lt", position, const(0, "i64")), call("add", position, const(extent, "i64")), position)
    return Expr("check", "i64", (position,), extent)


class Indirect:
    """Computed indices of one access: each gets an axis named `$k` to stand for it in the affine part."""

    def __init__(self) -> None:
        self.values: list[Expr] = []

    def axis(self, value: Expr, extent: Dim, *, wraps: bool = False) -> Index:
        self.values.append(checked(value, extent, wraps))
        return of_atom(Axis(f"${len(self.values) - 1}", extent))

    def load(self, x: Tensor, where: Sequence[Index]) -> Expr:
        return widen(load(x.buffer, x.type, x.at(where), tuple(self.values)))


def affine(x: Tensor) -> Tensor:
    if not x.index.is_affine:
        raise Decline
    return x


def integral(index: Tensor) -> Tensor:
    if index.dtype not in (torch.int64, torch.int32):
        raise Decline
    return index


def nonempty(*tensors: Tensor) -> None:
    if any(no_elements(t.shape) for t in tensors):
        raise Decline


@lowers("gather")
def _gather(ctx: Context, x: Tensor, d: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    if x.ndim == 0 or index.ndim == 0:
        raise Decline
    nonempty(x, index)
    at, source = wrap(d, x.ndim), affine(x)

    def body(where: tuple[Index, ...]) -> Expr:
        indirect = Indirect()
        place = list(where)
        place[at] = indirect.axis(index.load(where), x.shape[at])
        return indirect.load(source, place)

    return ctx.make(index.shape, x.dtype, body)


@lowers("index_select")
def _index_select(ctx: Context, x: Tensor, d: int, index: Tensor) -> Tensor:
    if x.ndim == 0:
        raise Decline
    nonempty(x, index)
    at, source = wrap(d, x.ndim), affine(integral(index) and x)

    def body(where: tuple[Index, ...]) -> Expr:
        indirect = Indirect()
        place = list(where)
        place[at] = indirect.axis(index.load([where[at]] if index.ndim else []), x.shape[at])
        return indirect.load(source, place)

    return ctx.make(as_shape(ctx.meta.shape), x.dtype, body)


@lowers("embedding")
def _embedding(ctx: Context, weight: Tensor, index: Tensor, padding_idx: int = -1, scale: bool = False, sparse: bool = False) -> Tensor:
    nonempty(weight, index)
    source = affine(integral(index) and weight)

    def body(where: tuple[Index, ...]) -> Expr:
        indirect = Indirect()
        row = indirect.axis(index.load(where[:-1]), weight.shape[0])
        return indirect.load(source, [row, where[-1]])

    return ctx.make((*index.shape, weight.shape[1]), weight.dtype, body)


@lowers("index.Tensor _unsafe_index.Tensor")
def _index(ctx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    plan = IndexPlan(ctx, affine(x), indices)
    nonempty(x, *plan.tensors)

    def body(where: tuple[Index, ...]) -> Expr:
        indirect = Indirect()
        place = plan.place(where, indirect)
        return indirect.load(x, place)

    return ctx.make(as_shape(ctx.meta.shape), x.dtype, body)


class IndexPlan:
    """Where the dims of `x[i, :, j]` come from: index tensors broadcast together, and stay in place if they are neighbours."""

    def __init__(self, ctx: Context, x: Tensor, indices: Sequence[Tensor | None]) -> None:
        self.x = x
        self.indexed = {k: integral(i) for k, i in enumerate(indices) if i is not None}
        if not self.indexed:
            raise Decline
        self.tensors = list(self.indexed.values())
        self.shape = broadcast_shape([t.shape for t in self.tensors])
        self.kept = [k for k in range(x.ndim) if k not in self.indexed]
        positions = sorted(self.indexed)
        neighbours = positions == list(range(positions[0], positions[-1] + 1))
        self.start = positions[0] if neighbours else 0
        before = [k for k in self.kept if k < positions[0]] if neighbours else []
        self.kept_order = before + [k for k in self.kept if k not in before]
        self.out_shape = (
            tuple(x.shape[k] for k in self.kept_order[: len(before)])
            + self.shape
            + tuple(x.shape[k] for k in self.kept_order[len(before) :])
        )

    def place(self, where: Sequence[Index], indirect: Indirect) -> list[Index]:
        """Position in `x` of one element of the result."""
        shared = where[self.start : self.start + len(self.shape)]
        others = [*where[: self.start], *where[self.start + len(self.shape) :]]
        by_dim = dict(zip(self.kept_order, others, strict=True))
        for k, index in self.indexed.items():
            by_dim[k] = indirect.axis(index.broadcast_load(shared), self.x.shape[k], wraps=True)
        return [by_dim[k] for k in range(self.x.ndim)]


# ---- scatters: a copy of the target, then stores into it ----


def base_copy(ctx: Context, x: Tensor) -> Tensor:
    """The result starts as a copy of `x`."""
    return ctx.make(x.shape, x.dtype, x.load, ctx.meta_strides(x.shape) or contiguous_strides(x.shape))


def sums_of(ctx: Context, x: Tensor, over: Tensor, body: Any) -> Tensor:
    """`x` with the elements of `over` added in float32, rounded to its 16-bit type once."""
    strides = ctx.meta_strides(x.shape) or contiguous_strides(x.shape)
    sums = ctx.make(x.shape, torch.float32, x.load, strides)
    scatter(ctx, sums, over, "add", body)
    return ctx.make(x.shape, x.dtype, sums.load, strides)


def summed(ctx: Context, x: Tensor, over: Tensor, body: Any) -> Tensor:
    """`x` with the elements of `over` added, as ATen does: in its type, but on a GPU in float32 where that is a 16-bit one."""
    if types.is_half(x.type) and ctx.program.device != "cpu":
        return sums_of(ctx, x, over, body)
    scatter(ctx, x, over, "add", body)
    return x


def scatter(ctx: Context, out: Tensor, over: Tensor, mode: str, body: Any) -> None:
    """One store into `out` per element of `over`; `body(where, indirect)` gives (position in out, value)."""
    axes, where = loop_axes(over)
    indirect = Indirect()
    place, value = body(where, indirect)
    ctx.emit(axes, (Store(out.buffer, out.at(place), to_storage(value, out.type), mode, tuple(indirect.values)),))


@lowers("index_put _unsafe_index_put")
def _index_put(ctx: Context, x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    if accumulate and x.dtype == torch.bool:
        raise Decline
    plan = IndexPlan(ctx, affine(x), indices)
    nonempty(x, *plan.tensors)
    out = base_copy(ctx, x)
    over = template(plan.out_shape, x)

    def body(where: Sequence[Index], indirect: Indirect) -> tuple[list[Index], Expr]:
        return plan.place(where, indirect), cast(values.broadcast_load(where), ctx_type(x))

    if accumulate:
        return summed(ctx, out, over, body)
    scatter(ctx, out, over, "set", body)
    return out


def ctx_type(x: Tensor) -> str:
    return types.compute(x.type)


def template(shape: tuple[Dim, ...], like: Tensor) -> Tensor:
    """A shape to loop over, in contiguous order."""
    index = Index(0)
    for k, (extent, stride) in enumerate(zip(shape, contiguous_strides(shape), strict=True)):
        index = index + of_atom(dim(k, extent)) * stride
    return Tensor("", shape, like.dtype, index)


@lowers("scatter_add scatter.src scatter.value")
def _scatter(ctx: Context, x: Tensor, d: int, index: Tensor, source: Any) -> Tensor:
    if x.ndim == 0 or index.ndim == 0 or (isinstance(source, Tensor) and source.ndim == 0):
        raise Decline
    nonempty(x, index)
    mode = "add" if ctx.origins[0].op.startswith("scatter_add") else "set"
    if mode == "add" and x.dtype == torch.bool:
        raise Decline
    at = wrap(d, x.ndim)

    def body(where: Sequence[Index], indirect: Indirect) -> tuple[list[Index], Expr]:
        place = list(where)
        place[at] = indirect.axis(index.load(where), x.shape[at])
        value = source.load(where) if isinstance(source, Tensor) else const(source, ctx_type(x))
        return place, cast(value, ctx_type(x))

    if mode == "add" and types.is_half(x.type):
        return sums_of(ctx, x, template(index.shape, x), body)
    out = base_copy(ctx, x)
    scatter(ctx, out, template(index.shape, x), mode, body)
    return out


@lowers("index_add index_copy")
def _index_add(ctx: Context, x: Tensor, d: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    if x.ndim == 0 or index.ndim != 1 or x.dtype == torch.bool:
        raise Decline
    nonempty(x, index, source)
    mode = "add" if ctx.origins[0].op.startswith("index_add") else "set"
    at = wrap(d, x.ndim)
    integral(index)

    def body(where: Sequence[Index], indirect: Indirect) -> tuple[list[Index], Expr]:
        place = list(where)
        place[at] = indirect.axis(index.load([where[at]]), x.shape[at])
        value = cast(source.load(where), ctx_type(x))
        return place, value if alpha == 1 else call("mul", value, const(alpha, value.type))

    if mode == "add" and types.is_half(x.type) and alpha == 1 and x.ndim > 1 and at in (0, x.ndim - 1):  # ATen rounds the others one by one
        return sums_of(ctx, x, template(source.shape, x), body)
    out = base_copy(ctx, x)
    scatter(ctx, out, template(source.shape, x), mode, body)
    return out


@lowers("index_fill.int_Scalar")
def _index_fill(ctx: Context, x: Tensor, d: int, index: Tensor, value: float) -> Tensor:
    if x.ndim == 0 or index.ndim != 1:
        raise Decline
    nonempty(x, index)
    at, out = wrap(d, x.ndim), base_copy(ctx, integral(index) and x)
    shape = x.shape[:at] + index.shape + x.shape[at + 1 :]

    def body(where: Sequence[Index], indirect: Indirect) -> tuple[list[Index], Expr]:
        place = list(where)
        place[at] = indirect.axis(index.load([where[at]]), x.shape[at], wraps=True)
        return place, const(value, ctx_type(x))

    scatter(ctx, out, template(shape, x), "set", body)
    return out


@lowers("embedding_dense_backward")
def _embedding_backward(ctx: Context, grad: Tensor, index: Tensor, rows: int, padding_idx: int, by_frequency: bool) -> Tensor:
    if by_frequency:
        raise Decline
    nonempty(grad, integral(index))
    out = constant(ctx, 0)

    def body(where: Sequence[Index], indirect: Indirect) -> tuple[list[Index], Expr]:
        row = index.load(where[:-1])
        place = [indirect.axis(row, rows), where[-1]]
        value = grad.load(where)
        if padding_idx >= 0:
            value = call("where", call("eq", cast(row, "i64"), const(padding_idx, "i64")), const(0, value.type), value)
        return place, value

    return summed(ctx, out, template((*index.shape, grad.shape[-1]), grad), body)


# ---- writing a region: where() on the position ----


def inside(position: Index, start: Dim, stop: Dim, step: Dim = 1) -> Expr:
    """Is `position` in range(start, stop, step)?"""
    value = index_value(position)
    test = call("and", call("ge", value, const(start, "i64")), call("lt", value, const(stop, "i64")))
    if step > 1:
        test = call("and", test, call("eq", index_value((position - start) % step), const(0, "i64")))
    return test


@lowers("select_scatter")
def _select_scatter(ctx: Context, x: Tensor, source: Tensor, d: int, position: int) -> Tensor:
    at = wrap(d, x.ndim)
    picked = position % x.shape[at]
    if source.dtype != x.dtype:
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        new = source.load([*where[:at], *where[at + 1 :]])
        return call("where", inside(where[at], picked, picked + 1), new, x.load(where))

    return ctx.make(x.shape, x.dtype, body)


@lowers("slice_scatter")
def _slice_scatter(
    ctx: Context, x: Tensor, source: Tensor, d: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    at = wrap(d, x.ndim)
    if no_elements(source.shape):
        return base_copy(ctx, x)
    if source.dtype != x.dtype:
        raise Decline
    begin = start_in(start, x.shape[at])
    stop = begin + (source.shape[at] - 1) * step + 1

    def body(where: tuple[Index, ...]) -> Expr:
        place = [*where[:at], (where[at] - begin) // step, *where[at + 1 :]]
        return masked(inside(where[at], begin, stop, step), source.load(place), x.load(where))

    return ctx.make(x.shape, x.dtype, body)


@lowers("as_strided_scatter")
def _as_strided_scatter(
    ctx: Context, x: Tensor, source: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> Tensor:
    """Every element of x finds its place in the strided window by dividing its address by the window's strides."""
    view = x.view()
    if view is None or no_elements(source.shape) or ctx.meta_strides(x.shape) is None:
        raise Decline
    start = view.offset if offset is None else view.offset + offset - ctx.begin
    order = sorted((k for k, n in enumerate(size) if n != 1), key=lambda k: -stride[k])
    overlaps = any(stride[outer] < stride[inner] * size[inner] for outer, inner in pairwise(order))
    if overlaps or start > view.offset or any(stride[k] <= 0 for k in order):
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        rest, place, test = x.at(where) - start, [ZERO] * len(size), const(True, "bool")
        for k in order:
            digit = rest // stride[k]
            place[k], rest = digit % size[k], rest % stride[k]
            test = call("and", test, inside(digit, 0, size[k]))
        return masked(call("and", test, inside(rest, 0, 1)), source.load(place), x.load(where))

    return ctx.make(x.shape, x.dtype, body)


@lowers("take")
def _take(ctx: Context, x: Tensor, index: Tensor) -> Tensor:
    nonempty(x, index)
    view = x.view()
    if view is None or view.strides != contiguous_strides(x.shape):
        raise Decline
    linear = Tensor(x.buffer, (numel(x.shape),), x.dtype, of_atom(dim(0, numel(x.shape))) + view.offset)

    def body(where: tuple[Index, ...]) -> Expr:
        indirect = Indirect()
        return indirect.load(linear, [indirect.axis(index.load(where), linear.shape[0], wraps=True)])

    return ctx.make(index.shape, x.dtype, body)
