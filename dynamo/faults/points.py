"""The one function that points of the compiler call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
VARIABLE = "DYNAMO_FAULT"
Pass = Callable[[str, Any, tuple[Any, ...]], Any]  # point, value, what it is about -> what becomes of the value

_passing: Pass | None = None


def pass_through(passing: Pass | None) -> None:
    """From now on every point asks this; None switches faults off."""
    global _passing
    _passing = passing


def is_planted() -> bool:
    """Whether any fault is on; nothing that is compiled meanwhile may be kept for other processes."""
    return _passing is not None


def through(point: str, value: T, *about: Any) -> T:
    """`value`, which the compiler has here, or what a planted fault makes of it. Raises or ends the process where a fault does.

    `about` is what the point's row can describe.
    """
    return value if _passing is None else _passing(point, value, about)
