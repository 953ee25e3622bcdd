"""Acts that make capture, guards and tracing go wrong without a word."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from dynamo.fake import NoMeta

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def unsupported(value: Any, hit: Hit) -> Any:
    """Nobody knows what the function gives, so that it can't be captured."""

    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise NoMeta(value, "a planted fault")

    unknown.__name__ = hit.subject.name
    return unknown


def other_function(value: Any, hit: Hit) -> Any:
    """The captured graph gets the function, method or operator `as` instead."""
    name = hit.options["as"]
    if isinstance(value, str):
        return name
    return getattr(operator, name, None) or getattr(torch, name)


def other_operator(value: Any, hit: Hit) -> Any:
    """The traced graph gets the ATen operator `as` instead, with the same arguments."""
    return getattr(getattr(torch.ops.aten, hit.options["as"]), value._overloadname)


def no(value: Any, hit: Hit) -> bool:
    """The answer is no: a guard that is not kept."""
    return False


def yes(value: Any, hit: Hit) -> bool:
    """The answer is yes: something counts as harmless."""
    return True
