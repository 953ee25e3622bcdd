"""Ops that make tensors from nothing: fills, ranges, identity."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from inductor.ir import types
from inductor.ir.affine import Index
from inductor.ir.dims import as_shape
from inductor.ir.expr import Expr, call, cast, const, index_value
from inductor.lowering.context import Context, Decline
from inductor.lowering.registry import add, lowers
from inductor.lowering.tensor import Tensor


def constant(ctx: Context, value: float) -> Tensor:
    """The node's whole result is one number."""
    if str(ctx.meta.device) != ctx.program.device or ctx.meta.layout != torch.strided:
        raise Decline
    dtype = ctx.meta.dtype
    type_name = types.compute(types.of_torch(dtype))
    return ctx.make(as_shape(ctx.meta.shape), dtype, lambda where: const(value, type_name))


def _fill(value: float, ctx: Context, *args: Any, **options: Any) -> Tensor:
    return constant(ctx, value)


def _unwritten(ctx: Context, *args: Any, **options: Any) -> Tensor:
    """Deterministic mode says what memory that nobody wrote holds; the mode is guarded, and part of the cache's key."""
    dtype = ctx.meta.dtype
    is_defined = torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # a property of the module's class
    if not is_defined:
        return constant(ctx, 0)
    if dtype.is_complex:
        raise Decline
    return constant(ctx, math.nan if dtype.is_floating_point else True if dtype is torch.bool else torch.iinfo(dtype).max)


add("zeros zeros_like new_zeros _efficientzerotensor", partial(_fill, 0), "native", "factory")
# memory nobody wrote; a constant is folded into what reads it, so this costs nothing where the values are not the result
add("empty.memory_format empty_like empty_strided empty_permuted new_empty new_empty_strided", _unwritten, "native", "factory")
add("ones ones_like new_ones", partial(_fill, 1), "native", "factory")


@lowers("full full_like new_full")
def _full(ctx: Context, first: Any, *rest: Any, **options: Any) -> Tensor:
    value = rest[-1] if len(rest) and not isinstance(rest[-1], (list, tuple)) else options.get("fill_value")
    if not isinstance(value, (bool, int, float)):
        raise Decline
    return constant(ctx, value)


@lowers("scalar_tensor")
def _scalar_tensor(ctx: Context, value: float, **options: Any) -> Tensor:
    return constant(ctx, value)


@lowers("fill.Scalar")
def _fill_scalar(ctx: Context, x: Tensor, value: float) -> Tensor:
    return constant(ctx, value)


@lowers("arange arange.start arange.start_step")
def _arange(ctx: Context, *args: Any, **options: Any) -> Tensor:
    start, step = (args[0], args[2] if len(args) > 2 else 1) if len(args) > 1 else (0, 1)
    dtype = ctx.meta.dtype
    is_float = types.is_float(types.of_torch(dtype))
    if not is_float and not all(isinstance(v, int) for v in (start, step)):
        raise Decline

    def body(where: tuple[Index, ...]) -> Expr:
        position = index_value(where[0])
        if is_float:  # in double, as eager does
            value = call("add", call("mul", cast(position, "f64"), const(step, "f64")), const(start, "f64"))
            return cast(value, types.of_torch(dtype))
        value = call("add", call("mul", position, const(step, "i64")), const(start, "i64"))
        return cast(value, types.of_torch(dtype))

    return ctx.make(as_shape(ctx.meta.shape), dtype, body)


@lowers("eye eye.m")
def _eye(ctx: Context, *args: Any, **options: Any) -> Tensor:
    def body(where: tuple[Index, ...]) -> Expr:
        return call("eq", index_value(where[0]), index_value(where[1]))

    return ctx.make(as_shape(ctx.meta.shape), ctx.meta.dtype, body)
