"""How an entry gives warnings: from the line that gives them in the program, under the filters that the program has set there."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch

from dynamo.source import const_source
from dynamo.surroundings.kernel_warnings import Said, globals_of
from dynamo.symbolic.attempt.effects import Filter, Place
from dynamo.symbolic.attempt.frame import Frame

# Guarded where a warning is given by the entry.
FILTERS = const_source(vars(warnings), "warnings").step("dict_item", "filters", "warnings.filters")
# In what kernels say where the program has asked for deterministic ones: that depends on the kernel.
ALERT = "does not have a deterministic implementation"
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
# Torch's own account of what kernels do; eager never runs it.
_ABOUT_FAKES = tuple(
    _TORCH + name for name in ("_meta_registrations", "_prims", "_refs", "_decomp", "_ops", "_library", "_higher_order", "utils/_")
)


def give(message: Any, category: type[Warning], place: Place, filters: tuple[Filter, ...]) -> None:
    """Called by the entry, in place of the program's call of `warnings.warn`."""
    if not filters:
        _give_at(message, category, place, 2)
        return
    with warnings.catch_warnings():
        for name, args, kwargs in filters:
            getattr(warnings, name)(*args, **dict(kwargs))
        _give_at(message, category, place, 2)


def _give_at(message: Any, category: type[Warning], place: Place, depth: int) -> None:
    """A place above the entry is looked up on the stack, `depth` frames from here: who calls the entry is known only now."""
    file, line, space = place.file, place.line, place.globals
    if place.above:
        frame: FrameType | None = sys._getframe(depth)
        for _ in range(place.above):
            frame = frame.f_back if frame is not None else None
        file, line, space = (frame.f_code.co_filename, frame.f_lineno, frame.f_globals) if frame is not None else ("sys", 1, vars(sys))
    registry = space.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, space.get("__name__", "<string>"), registry)


def place(stack: Sequence[Frame], level: int) -> Place:
    """Where `warnings.warn(stacklevel=level)` of the innermost frame points."""
    frames = [f for f in reversed(stack) if "/dynamo/symbolic/" not in f.code.co_filename]
    at = max(level, 1) - 1
    if at < len(frames):
        return Place(frames[at].code.co_filename, frames[at].line, frames[at].globals)
    return Place("", 0, {}, at - len(frames) + 1)


def place_of(said: Said, stack: Sequence[Frame]) -> Place:
    """What an operator's own Python code says of itself stays there; all else is said of the line that calls it."""
    if said.file.startswith(_TORCH) and not said.file.startswith(_ABOUT_FAKES):
        return Place(said.file, said.line, globals_of(said.file))
    return place(stack, 1)


def no_errors(filters: Any) -> bool:
    """has no "error" filter"""
    return all(f[0] != "error" for f in filters)
