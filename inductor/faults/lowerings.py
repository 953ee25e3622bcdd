"""Wrong lowerings: functions like those of `inductor/lowering`, in place of a node's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dynamo.ops.facts import overload
from inductor.ir.dims import contiguous_strides
from inductor.ir.expr import Expr, call, cast, const
from inductor.lowering.context import Context, Decline
from inductor.lowering.registry import ROWS, Lower
from inductor.lowering.tensor import Tensor, of_strides

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def own(hit: Hit) -> Lower:
    """The lowering that the node should get."""
    target: Any = hit.about[0].target
    if target in ROWS:
        return ROWS[target].lower
    return lambda ctx, *args, **kwargs: ctx.extern(target, args, kwargs, ctx.meta)


def other(value: Any, hit: Hit) -> Lower:
    """As the operator `as` with the same overload."""
    target: Any = hit.about[0].target
    found = ROWS.get(overload(f"{hit.options['as']}.{target._overloadname}"))
    return own(hit) if found is None else found.lower


def _after(hit: Hit, change: Any) -> Lower:
    """The node's own lowering, with every element of its result changed."""
    lower = own(hit)

    def lowered(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        out = lower(ctx, *args, **kwargs)
        if not isinstance(out, Tensor):
            raise Decline
        return ctx.map(change, [out], out.dtype)

    return lowered


def nan(value: Any, hit: Hit) -> Lower:
    """Elements above 0.5 become NaN."""

    def change(x: Expr) -> Expr:
        return call("where", call("gt", x, const(0.5, x.type)), const(float("nan"), x.type), x)

    return _after(hit, change)


def truncated(value: Any, hit: Hit) -> Lower:
    """Elements go through int16."""
    return _after(hit, lambda x: cast(cast(x, "i16"), x.type))


def scaled(value: Any, hit: Hit) -> Lower:
    """Elements are a hundredth too large."""
    return _after(hit, lambda x: call("mul", x, const(1.01, x.type)))


def contiguous(value: Any, hit: Hit) -> Lower:
    """The first operand is read as if its memory were in the order of its dims."""
    lower = own(hit)

    def lowered(ctx: Context, x: Any, *args: Any, **kwargs: Any) -> Any:
        view = x.view() if isinstance(x, Tensor) else None
        if view is None or view.strides == contiguous_strides(view.shape):
            raise Decline
        wrong = of_strides(x.buffer, x.shape, contiguous_strides(x.shape), x.dtype, view.offset)
        return lower(ctx, replace(x, index=wrong.index), *args, **kwargs)

    return lowered
