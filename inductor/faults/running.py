"""Faults of compiled code: the node becomes a call that misbehaves when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.faults import crashes
from inductor.lowering.context import Context
from inductor.lowering.registry import Lower

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def _called(hit: Hit, run: Callable[..., Any]) -> Lower:
    """A lowering to a call of `run` in place of the operator."""
    run.__name__ = run.__qualname__ = hit.fault.name

    def lowered(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        return ctx.extern(run, args, kwargs, ctx.meta)

    return lowered


def crash(value: Any, hit: Hit) -> Lower:
    """The process or the call ends as `end` says, one of the functions of `dynamo.faults.crashes`."""
    target: Any = hit.about[0].target
    end = getattr(crashes, hit.options["end"])

    def run(*args: Any, **kwargs: Any) -> Any:
        end(None, hit)
        return target(*args, **kwargs)

    return _called(hit, run)


def remember(value: Any, hit: Hit) -> Lower:
    """From the second call on the first result is given, as by a cache whose key lacks the values."""
    target: Any = hit.about[0].target
    kept: list[torch.Tensor] = []

    def run(*args: Any, **kwargs: Any) -> Any:
        if not kept:
            kept.append(target(*args, **kwargs).clone())
        return kept[0].clone()

    return _called(hit, run)


def draw(value: Any, hit: Hit) -> Lower:
    """A random number is drawn before the node's own."""
    target: Any = hit.about[0].target

    def run(*args: Any, **kwargs: Any) -> Any:
        torch.rand(1)
        return target(*args, **kwargs)

    return _called(hit, run)
