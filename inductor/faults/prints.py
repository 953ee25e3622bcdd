"""Wrong templates of the C text of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inductor.targets.cpu.c.ops import C_OPS

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def other(text: str, hit: Hit) -> str:
    """The operation `as` is printed."""
    return C_OPS[hit.options["as"]].for_operand(hit.about[0].args[-1].type) or text


def integer(text: str, hit: Hit) -> str:
    """The value loses what is behind the point."""
    return f"((int)({text}))"


def broken(text: str, hit: Hit) -> str:
    """The value is a name that nothing declares."""
    return f"({text} + undeclared)"
