"""Joining and padding. A concatenation is one buffer that several nests fill, so each part is written where it ends up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from inductor.ir import types
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Shape, as_shape, at_least, is_one, no_elements
from inductor.ir.expr import Expr, call, cast, const, index_value, load, masked, widen
from inductor.lowering.context import Context, Decline, as_stored
from inductor.lowering.formulas import minus, number, sigmoid, times
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor
from inductor.lowering.view import slice_dim, wrap


@lowers("cat concat concatenate")
def _cat(ctx: Context, tensors: Sequence[Tensor], d: int = 0) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    parts = [t for t in tensors if t.ndim == len(shape) and not no_elements(t.shape)]
    strides = ctx.meta_strides(shape)
    if strides is None or not parts:
        raise Decline
    at, start = wrap(d, len(shape)), 0
    out = ctx.buffer(shape, ctx.meta.dtype, strides)
    for part in parts:
        fill_region(ctx, slice_dim(out, at, start, part.shape[at]), part)
        start += part.shape[at]
    return out


def fill_region(ctx: Context, region: Tensor, source: Tensor) -> None:
    target = types.compute(region.type)
    ctx.fill(region, lambda where: cast(source.load(where), target))


@lowers("stack")
def _stack(ctx: Context, tensors: Sequence[Tensor], d: int = 0) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    strides = ctx.meta_strides(shape)
    if strides is None or no_elements(shape):
        raise Decline
    at = d % len(shape)
    out = ctx.buffer(shape, ctx.meta.dtype, strides)
    for k, part in enumerate(tensors):
        wide = part.shape[:at] + (1,) + part.shape[at:]

        def body(where: tuple[Index, ...], part: Tensor = part) -> Expr:
            return cast(part.load([*where[:at], *where[at + 1 :]]), types.compute(out.type))

        region = slice_dim(out, at, k, 1)
        assert region.shape == wide
        ctx.fill(region, body)
    return out


def bounds_test(where: Sequence[Index], shape: Shape) -> Expr | None:
    """True where every index is inside; None when that is always so."""
    test: Expr | None = None
    for position, extent in zip(where, shape, strict=True):
        low, high = position.bounds
        for fails, op, bound in ((low < 0, "ge", 0), (not at_least(extent, high + 1), "lt", extent)):
            if fails:
                part = call(op, index_value(position), const(bound, "i64"))
                test = part if test is None else call("and", test, part)
    return test


def padded_load(x: Tensor, where: Sequence[Index], other: Expr) -> Expr:
    """The element, or `other` where an index lies outside."""
    test = bounds_test(where, x.shape)
    return x.load(where) if test is None else masked(test, x.load(where), other)


def pad_pairs(x: Tensor, pad: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) per dim; `pad` lists pairs from the last dim backwards."""
    pairs = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        pairs[x.ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return pairs


@lowers("constant_pad_nd")
def _constant_pad(ctx: Context, x: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    pairs, shape = pad_pairs(x, pad), as_shape(ctx.meta.shape)
    if no_elements(x.shape):
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        source = [position - before for position, (before, _) in zip(where, pairs, strict=True)]
        return padded_load(x, source, const(value, types.compute(x.type)))

    return ctx.make(shape, x.dtype, body)


def _mirror(position: Index, extent: int) -> Expr:
    value = call("abs", index_value(position))
    last = const(extent - 1, "i64")
    return call("sub", last, call("abs", call("sub", last, value)))


def _clamp(position: Index, extent: int) -> Expr:
    return call("min", call("max", index_value(position), const(0, "i64")), const(extent - 1, "i64"))


def _edge_pad(source: Callable[[Index, int], Expr], ctx: Context, x: Tensor, pad: Sequence[int]) -> Tensor:
    pairs, shape = pad_pairs(x, pad), as_shape(ctx.meta.shape)
    if no_elements(x.shape) or not x.index.is_affine:
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        place: list[Index] = []
        indirect: list[Expr] = []
        for position, (before, after), extent in zip(where, pairs, x.shape, strict=True):
            if (before <= 0 and after <= 0) or is_one(extent):
                place.append(Index(0) if is_one(extent) else position - before)
            else:
                indirect.append(source(position - before, extent))
                place.append(of_atom(Axis(f"${len(indirect) - 1}", extent)))
        return widen(load(x.buffer, x.type, x.at(place), tuple(indirect)))

    return ctx.make(shape, x.dtype, body)


@lowers("reflection_pad1d reflection_pad2d reflection_pad3d")
def _reflection_pad(ctx: Context, x: Tensor, pad: Sequence[int]) -> Tensor:
    return _edge_pad(_mirror, ctx, x, pad)


@lowers("replication_pad1d replication_pad2d replication_pad3d")
def _replication_pad(ctx: Context, x: Tensor, pad: Sequence[int]) -> Tensor:
    return _edge_pad(_clamp, ctx, x, pad)


def _triangle(keep_lower: bool, ctx: Context, x: Tensor, diagonal: int = 0) -> Tensor:
    def body(where: tuple[Index, ...]) -> Expr:
        offset = index_value(where[-1] - where[-2])
        test = call("le" if keep_lower else "ge", offset, const(diagonal, "i64"))
        return masked(test, x.load(where), const(0, types.compute(x.type)))

    return ctx.make(x.shape, x.dtype, body)


@lowers("tril")
def _tril(ctx: Context, x: Tensor, diagonal: int = 0) -> Tensor:
    return _triangle(True, ctx, x, diagonal)


@lowers("triu")
def _triu(ctx: Context, x: Tensor, diagonal: int = 0) -> Tensor:
    return _triangle(False, ctx, x, diagonal)


@lowers("diag_embed")
def _diag_embed(ctx: Context, x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    shape = as_shape(ctx.meta.shape)
    a, b = dim1 % len(shape), dim2 % len(shape)
    if no_elements(x.shape):
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        along = where[a] - max(-offset, 0)
        test = call("eq", index_value(where[b] - where[a]), const(offset, "i64"))
        rest = [w for k, w in enumerate(where) if k not in (a, b)]
        low = call("ge", index_value(along), const(0, "i64"))
        high = call("lt", index_value(along), const(x.shape[-1], "i64"))
        return masked(call("and", call("and", test, low), high), x.load([*rest, along]), const(0, types.compute(x.type)))

    return ctx.make(shape, x.dtype, body)


@lowers("pixel_shuffle")
def _pixel_shuffle(ctx: Context, x: Tensor, factor: int) -> Tensor:
    def body(where: tuple[Index, ...]) -> Expr:
        *batch, c, h, w = where
        channel = c * (factor * factor) + (h % factor) * factor + w % factor
        return x.load([*batch, channel, h // factor, w // factor])

    return ctx.make(as_shape(ctx.meta.shape), x.dtype, body)


@lowers("pixel_unshuffle")
def _pixel_unshuffle(ctx: Context, x: Tensor, factor: int) -> Tensor:
    area = factor * factor

    def body(where: tuple[Index, ...]) -> Expr:
        *batch, c, h, w = where
        return x.load([*batch, c // area, h * factor + (c % area) // factor, w * factor + c % factor])

    return ctx.make(as_shape(ctx.meta.shape), x.dtype, body)


@lowers("channel_shuffle native_channel_shuffle")
def _channel_shuffle(ctx: Context, x: Tensor, groups: int) -> Tensor:
    per_group = x.shape[1] // groups

    def body(where: tuple[Index, ...]) -> Expr:
        return x.load([where[0], (where[1] % groups) * per_group + where[1] // groups, *where[2:]])

    return ctx.make(x.shape, x.dtype, body)


@lowers("glu")
def _glu(ctx: Context, x: Tensor, d: int = -1) -> Tensor:
    at = wrap(d, x.ndim)
    half = x.shape[at] // 2
    a, b = slice_dim(x, at, 0, half), slice_dim(x, at, half, half)
    return ctx.map(lambda u, v: call("mul", u, sigmoid(v)), [a, b], x.dtype)


@lowers("glu_backward")
def _glu_backward(ctx: Context, grad: Tensor, x: Tensor, d: int) -> Tensor:
    at = wrap(d, x.ndim)
    half = x.shape[at] // 2
    strides = ctx.meta_strides(x.shape)
    if strides is None:
        raise Decline
    out = ctx.buffer(x.shape, x.dtype, strides)
    values, gates = slice_dim(x, at, 0, half), slice_dim(x, at, half, half)

    def gate_at(where: tuple[Index, ...]) -> Expr:
        """On CPUs eager keeps the gate in half of its result, in 16 bits where that has them: of a gate near 1 `1 - gate` has few left."""
        gate = sigmoid(gates.load(where))
        return as_stored(gate, x.dtype) if ctx.program.device == "cpu" else gate

    def first(where: tuple[Index, ...]) -> Expr:
        return times(grad.load(where), gate_at(where))

    def second(where: tuple[Index, ...]) -> Expr:
        gate = gate_at(where)
        return times(times(times(minus(number(gate, 1), gate), gate), values.load(where)), grad.load(where))

    ctx.fill(slice_dim(out, at, 0, half), first)
    ctx.fill(slice_dim(out, at, half, half), second)
    return out
