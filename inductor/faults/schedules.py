"""Wrong steps of the schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inductor.ir.expr import Expr

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def without_last(value: Expr, hit: Hit) -> Expr:
    """The expression without its outermost operation, where an operand has its type."""
    return next((a for a in value.args if a.type == value.type), value)


def blind(check: Any, hit: Hit) -> Any:
    """The schedule is not checked: what is wrong with it shows in results."""
    return lambda plan: None
