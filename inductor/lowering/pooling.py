"""Pooling: the window is unrolled into loads, so that results are element-wise and fuse with what follows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch

from inductor.ir import types
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import as_shape, at_least, no_elements, numel
from inductor.ir.expr import Expr, call, cast, const, index_value, load, masked, widen
from inductor.ir.nest import Store
from inductor.lowering.concat import bounds_test
from inductor.lowering.context import Context, Decline, loop_axes, to_storage
from inductor.lowering.factory import constant
from inductor.lowering.formulas import plus, times
from inductor.lowering.indexing import Indirect, template
from inductor.lowering.reduction import mean
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor

LARGEST_WINDOW = 36  # unrolled loads per result


def pair(value: Sequence[int] | int, count: int) -> tuple[int, ...]:
    listed = [value] if isinstance(value, int) else list(value)
    return tuple(listed * count) if len(listed) == 1 else tuple(listed)


class Window:
    """The taps of one pooling: offsets inside the kernel, and where each lands in the input."""

    def __init__(
        self, x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], rank: int
    ) -> None:
        self.x, self.rank = x, rank
        self.kernel = pair(kernel, rank)
        self.stride = pair(stride, rank) if stride else self.kernel
        self.padding, self.dilation = pair(padding, rank), pair(dilation, rank)
        if numel(self.kernel) > LARGEST_WINDOW or no_elements(x.shape):
            raise Decline

    def taps(self) -> list[tuple[int, ...]]:
        return list(product(*(range(k) for k in self.kernel)))

    def place(self, where: Sequence[Index], tap: Sequence[int]) -> list[Index]:
        batch, spatial = list(where[: -self.rank]), where[-self.rank :]
        moved = [p * s + t * d - b for p, s, t, d, b in zip(spatial, self.stride, tap, self.dilation, self.padding, strict=True)]
        return batch + moved

    def load(self, where: Sequence[Index], tap: Sequence[int], other: float) -> tuple[Expr, Expr | None]:
        """The element under a tap (`other` outside the input), and the test for being inside (None: always)."""
        place = self.place(where, tap)
        test = bounds_test(place, self.x.shape)
        value = self.x.load(place)
        return (value, None) if test is None else (masked(test, value, const(other, value.type)), test)

    def clamped(self, where: Sequence[Index], tap: Sequence[int]) -> Expr:
        """The element under a tap, or the nearest one inside the input."""
        place = self.place(where, tap)
        indirect: list[Expr] = []
        for k, extent in enumerate(self.x.shape):
            low, high = place[k].bounds
            if low >= 0 and at_least(extent, high + 1):
                continue
            moved = index_value(place[k])
            moved = call("max", moved, const(0, "i64")) if low < 0 else moved
            moved = call("min", moved, const(extent - 1, "i64")) if not at_least(extent, high + 1) else moved
            indirect.append(moved)
            place[k] = of_atom(Axis(f"${len(indirect) - 1}", extent))
        return widen(load(self.x.buffer, self.x.type, self.x.at(place), tuple(indirect)))

    def clamped_step(self, where: Sequence[Index], tap: Sequence[int]) -> Expr:
        """How far behind the window's first tap the element of `clamped` lies in its plane, as i32."""
        total: Expr | None = None
        place, first = self.place(where, tap)[-self.rank :], self.place(where, (0,) * self.rank)[-self.rank :]
        spatial = self.x.shape[-self.rank :]
        for k, extent in enumerate(spatial):
            low, high = place[k].bounds
            moved = const((place[k] - first[k]).const, "i32")
            if low < 0:
                below = call("max", index_value(place[k] * -1), const(0, "i64"))
                moved = call("add", moved, cast(below, "i32"))
            if not at_least(extent, high + 1):
                above = call("max", index_value(place[k] - (extent - 1)), const(0, "i64"))
                moved = call("sub", moved, cast(above, "i32"))
            part = call("mul", moved, const(numel(spatial[k + 1 :]), "i32"))
            total = part if total is None else call("add", total, part)
        assert total is not None
        return total


def lowest(x: Tensor) -> float:
    return -math.inf if types.is_float(x.type) else torch.iinfo(x.dtype).min


def larger(value: Expr, best: Expr) -> Expr:
    """Eager's rule for moving on: strictly larger, or NaN."""
    test = call("gt", value, best)
    return call("or", test, call("isnan", value)) if types.is_float(value.type) else test


def _max_pool(ctx: Context, x: Tensor, window: Window, ceil: bool) -> tuple[Tensor, Tensor]:
    metas, rank = ctx.meta, window.rank
    shape = as_shape(metas[0].shape)
    spatial = x.shape[-rank:]
    if numel(spatial) + numel(window.kernel) * max(window.dilation) >= 2**31:
        raise Decline
    # A tap outside the input, moved to its edge, still lies in the window: that keeps loads free of conditions.
    clamps = x.index.is_affine and set(window.dilation) == {1} and not ceil

    def values(where: tuple[Index, ...]) -> Expr:
        best: Expr | None = None
        for tap in window.taps():
            value = window.clamped(where, tap) if clamps else window.load(where, tap, lowest(x))[0]
            best = value if best is None else call("max", best, value)
        assert best is not None
        return best

    def positions(where: tuple[Index, ...]) -> Expr:
        best: Expr | None = None
        at, first = first_inside(window, where, spatial)
        for tap in window.taps():
            test: Expr | None = None
            if clamps:  # an edge met again is not larger than itself, and its place is the edge's own
                value, step = window.clamped(where, tap), window.clamped_step(where, tap)
            else:  # outside is the lowest value, which is never larger
                value, test = window.load(where, tap, lowest(x))
                flat = flat_place([Index(t * d) for t, d in zip(tap, window.dilation, strict=True)], spatial)
                step = const(flat.const, "i32")
            if best is None:
                best = value if test is None else const(lowest(x), value.type)
                at = at if test is not None else step
                if test is None:
                    continue
            take = larger(value, best)
            at = call("where", take, step, at)
            best = call("where", take, value, best)
        return call("add", first, cast(at, "i64"))

    ctx.meta = metas[0]
    out = ctx.make(shape, x.dtype, values)
    ctx.meta = metas[1]
    return out, ctx.make(shape, metas[1].dtype, positions)


def flat_place(where: Sequence[Index], spatial: Sequence[int]) -> Index:
    total = Index(0)
    for position, extent in zip(where, spatial, strict=True):
        total = total * extent + position
    return total


def first_inside(window: Window, where: Sequence[Index], spatial: Sequence[int]) -> tuple[Expr, Expr]:
    """How far behind the window's first tap the first one inside the input lies, and the place of that first tap.

    The former is what eager reports for a window of -inf. It is 32 bits wide, as values are, so that the choice among
    taps stays in lanes as wide as the values; a plane has fewer elements than that.
    """
    corner = window.place(where, (0,) * window.rank)[-window.rank :]
    total: Expr = const(0, "i32")
    for k, (position, dilation) in enumerate(zip(corner, window.dilation, strict=True)):
        if position.bounds[0] < 0:
            # Smallest count of dilations that brings the position to zero or above.
            steps = call("max", index_value((Index(dilation - 1) - position) // dilation), const(0, "i64"))
            far = const(dilation * numel(spatial[k + 1 :]), "i32")
            total = call("add", total, call("mul", cast(steps, "i32"), far))
    return total, index_value(flat_place(corner, spatial))


@lowers("max_pool2d_with_indices", "decomposed")
def _max_pool2d(
    ctx: Context,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
) -> tuple[Tensor, Tensor]:
    return _max_pool(ctx, x, Window(x, kernel, stride, padding, dilation, 2), ceil)


@lowers("max_pool2d_with_indices_backward", "decomposed")
def _max_pool2d_backward(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
    indices: Tensor,
) -> Tensor:
    if no_elements(grad.shape):
        raise Decline
    out = constant(ctx, 0)
    view = out.view()
    if view is None or view.strides[-2] != view.strides[-1] * out.shape[-1]:
        raise Decline
    plane, step = numel(out.shape[-2:]), view.strides[-1]
    axes, where = loop_axes(template(grad.shape, grad))
    indirect = Indirect()
    place = indirect.axis(indices.load(where), plane) * step
    is_wide = types.is_half(out.type) and ctx.program.device != "cpu"  # atomics of 16 bits are slow, or there are none
    sums = ctx.make(out.shape, torch.float32, out.load, view.strides) if is_wide else out
    base = sums.at([*where[:-2], Index(0), Index(0)])
    value = to_storage(grad.load(where), sums.type)
    ctx.emit(axes, (Store(sums.buffer, base + place, value, "add", tuple(indirect.values)),))
    return ctx.make(out.shape, out.dtype, sums.load, view.strides) if is_wide else out


@lowers("avg_pool2d avg_pool3d")
def _avg_pool(
    ctx: Context,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil: bool = False,
    include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    rank = 3 if "3d" in ctx.origins[0].op else 2
    window = Window(x, kernel, stride, padding, (1,), rank)
    padded = any(window.padding)
    if not types.is_float(x.type) or ceil or (padded and not include_pad and divisor is None):
        raise Decline
    scale = 1.0 / (divisor or numel(window.kernel))

    def body(where: tuple[Index, ...]) -> Expr:
        total: Expr | None = None
        for tap in window.taps():
            value, _ = window.load(where, tap, 0.0)
            total = value if total is None else plus(total, value)
        assert total is not None
        return times(total, scale)

    return ctx.make(as_shape(ctx.meta.shape), x.dtype, body)


@lowers("_adaptive_avg_pool2d", "native")
def _adaptive_avg_pool(ctx: Context, x: Tensor, size: Sequence[int]) -> Tensor:
    height, width = x.shape[-2:]
    if no_elements(x.shape) or no_elements(size) or height % size[0] or width % size[1]:
        raise Decline
    if tuple(size) == (1, 1):
        return mean(ctx, x, [x.ndim - 2, x.ndim - 1], True, x.dtype)
    kernel = (height // size[0], width // size[1])
    return _avg_pool(ctx, x, kernel)


@lowers("_adaptive_avg_pool2d_backward")
def _adaptive_avg_pool_backward(ctx: Context, grad: Tensor, x: Tensor) -> Tensor:
    (height, width), (rows, columns) = x.shape[-2:], grad.shape[-2:]
    if no_elements(x.shape) or no_elements(grad.shape) or height % rows or width % columns:
        raise Decline
    return _spread(ctx, grad, x, (height // rows, width // columns))


@lowers("avg_pool2d_backward")
def _avg_pool_backward(
    ctx: Context,
    grad: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    include_pad: bool,
    divisor: int | None,
) -> Tensor:
    size = pair(kernel, 2)
    steps = pair(stride, 2) if stride else size
    exact = all(n % k == 0 for n, k in zip(x.shape[-2:], size, strict=True))
    if steps != size or any(padding) or divisor is not None or not exact or no_elements(x.shape):
        raise Decline
    return _spread(ctx, grad, x, size)


def _spread(ctx: Context, grad: Tensor, x: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """Every input element gets its window's gradient, divided by the window's size."""
    scale = 1.0 / numel(kernel)

    def body(where: tuple[Index, ...]) -> Expr:
        return times(grad.load([*where[:-2], where[-2] // kernel[0], where[-1] // kernel[1]]), scale)

    return ctx.make(x.shape, x.dtype, body)
