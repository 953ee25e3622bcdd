"""Calling from where Python's limit leaves few calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def frames() -> int:
    """How many calls are under way."""
    frame, count = sys._getframe(), 0
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def called_with(left: int, fn: Callable[[], T]) -> T:
    """What a function gives that has so many calls left."""
    return fn() if frames() >= sys.getrecursionlimit() - left else called_with(left, fn)
