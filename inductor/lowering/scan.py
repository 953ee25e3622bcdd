"""Running sums and products along one dim."""

from __future__ import annotations

from functools import partial

import torch

from inductor.ir import types
from inductor.ir.affine import Axis, Index
from inductor.ir.dims import is_one, no_elements
from inductor.ir.expr import Expr, cast, scan
from inductor.ir.nest import Store
from inductor.lowering.context import Context, Decline, loop_axes, to_storage
from inductor.lowering.reduction import chain_type, sum_of_one
from inductor.lowering.registry import add
from inductor.lowering.tensor import Tensor
from inductor.lowering.view import wrap


def _running(kind: str, ctx: Context, x: Tensor, d: int, *, dtype: torch.dtype | None = None) -> Tensor:
    if no_elements(x.shape) or ctx.meta.dtype == torch.bool:
        raise Decline
    if x.ndim == 0:
        return ctx.map(lambda v: v, [x], ctx.meta.dtype)
    at = wrap(d, x.ndim)
    if is_one(x.shape[at]):
        return ctx.map(sum_of_one if kind == "sum" else lambda v: v, [x], ctx.meta.dtype)
    out = ctx.buffer(x.shape, ctx.meta.dtype, ctx.meta_strides(x.shape) or ctx.strides_like(x.shape, []))
    axes, where = loop_axes(out)
    wide = types.compute(types.of_torch(chain_type(ctx.meta.dtype)))
    given = to_storage(x.load(where), out.type)  # the dtype of the result is that of the running value, too
    value: Expr = scan(kind, cast(given, wide), axis_of(where[at]))
    ctx.emit(axes, (Store(out.buffer, out.at(where), to_storage(value, out.type)),))
    return out


def axis_of(index: Index) -> Axis:
    (atom, _), *_rest = index.terms
    assert isinstance(atom, Axis)
    return atom


add("cumsum", partial(_running, "sum"), "native", "scan")
add("cumprod", partial(_running, "prod"), "native", "scan")
