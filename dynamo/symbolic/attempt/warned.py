"""How an entry gives warnings: from the line that gives them in the program, under the filters that the program has set there."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch

from dynamo.source import const_source
from dynamo.surroundings.kernel_warnings import Said, globals_of
from dynamo.symbolic.attempt.effects import Effects, Filter, Place
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.attempt.identity import Identities
from dynamo.symbolic.values.kinds import ListValue

# Guarded where a warning is given by the entry.
FILTERS = const_source(vars(warnings), "warnings").step("dict_item", "filters", "warnings.filters")
# What Python calls for each: guarded there as well.
HOOK = const_source(vars(warnings), "warnings").step("dict_item", "showwarning", "warnings.showwarning")
# In what kernels say where the program has asked for deterministic ones: that depends on the kernel.
ALERT = "does not have a deterministic implementation"
_PYTHON_SHOWS, _LOGGING_SHOWS = vars(warnings)["_showwarning_orig"], vars(logging)["_showwarning"]
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


def log() -> list[Any] | None:
    """The list that `catch_warnings(record=True)` gave, where warnings go now."""
    own = getattr(vars(warnings)["_showwarnmsg_impl"], "__self__", None)
    return own if type(own) is list else None


def can_wait(identities: Identities, effects: Effects) -> bool:
    """Whether the frame can't see that a warning is given by the entry, not where it stands: it hasn't met the list that records warnings,
    and no function of the program is told of them."""
    if id(log()) in identities.by_id or (id(vars(warnings)), "showwarning") in effects.global_writes:
        return False
    return warnings.showwarning in (_PYTHON_SHOWS, _LOGGING_SHOWS)


def rely_on_waiting(guard: Callable[..., None], identities: Identities) -> None:
    """Guard what `can_wait` is true of, and that no warning is an error."""
    guard(FILTERS, "pred", no_errors)
    guard(HOOK, "is", warnings.showwarning)
    for v in identities.by_id.values():
        if isinstance(v, ListValue) and v.on_read is None and v.source is not None:
            guard(v.source, "pred", is_no_log)


def is_no_log(obj: Any) -> bool:
    """is not the list that records warnings"""
    return obj is not log()


def no_errors(filters: Any) -> bool:
    """has no "error" filter"""
    return all(f[0] != "error" for f in filters)
