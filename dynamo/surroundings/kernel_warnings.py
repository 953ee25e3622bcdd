"""Warnings that torch gives while the compiler asks it about an operator: kept apart from those of the program.

Python's filters are a list that `warnings` looks up under its name whenever a warning is given, so that another list in its place is seen
at once. `warnings.catch_warnings` would do the same and make Python forget, for the whole process, which warnings it has shown.
"""

from __future__ import annotations

import re
import sys
import threading
import types
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Self

import torch


@dataclass(frozen=True)
class Said:
    """A warning: `file` and `line` are where Python saw it come from."""

    text: str
    category: type[Warning]
    file: str
    line: int


class _Here(threading.local):
    """In the place of a filter's pattern: matches whatever is said in the thread that made it.

    Both are C functions. `warnings` walks a list of filters that it does not hold on to, and code of Python's between two of them would
    let another thread replace that list.
    """

    match: Any = {}.get  # finds nothing


def _here() -> _Here:
    made = _Here()
    made.match = "found".__add__
    return made


class Kept:
    """Context: warnings given in it come into `said` and nowhere else.

    `always`: also those that torch gives once per process, which it then still has to give.
    """

    listening = 0

    def __init__(self, always: bool = True) -> None:
        self.said: list[Said] = []
        self.always = always
        self._here = _here()

    def __enter__(self) -> Self:
        self._filters, self._show, self._once = warnings.filters, warnings.showwarning, not torch.is_warn_always_enabled()
        vars(warnings)["showwarning"] = self._keep
        vars(warnings)["filters"] = [("always", self._here, Warning, None, 0), *self._filters]
        if self.always and self._once:
            torch.set_warn_always(True)
        Kept.listening += 1
        return self

    def __exit__(self, *error: object) -> None:
        Kept.listening -= 1
        if self.always and self._once:
            torch.set_warn_always(False)
        vars(warnings)["filters"] = self._filters
        vars(warnings)["showwarning"] = self._show

    def _keep(self, message: Any, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if self._here.match(""):
            self.said.append(Said(str(message), category, filename, lineno))
        else:
            self._show(message, category, filename, lineno, file, line)


def each_time(said: list[Said], again: Callable[[], object]) -> tuple[list[Said], list[Said]]:
    """Which of `said`, heard of an operator, it gives at every call, and which it has to give now as it does so once per process.

    The latter are torch's own business no more: whoever asks gives them.
    """
    if torch.is_warn_always_enabled():
        return said, []
    with Kept(always=False) as first:
        again()
    with Kept(always=False) as second:
        again()
    later = {s.text for s in second.said}
    return [s for s in said if s.text in later], [s for s in first.said if s.text not in later]


def without(fn: Callable[..., Any], said: Collection[tuple[str, type[Warning]]]) -> Callable[..., Any]:
    """`fn` with these warnings left out: somebody else gives them."""
    left_out = [("ignore", re.compile(re.escape(text)), category, None, 0) for text, category in said]
    space = vars(warnings)

    def run(*args: Any) -> Any:
        before = space["filters"]
        space["filters"] = [*left_out, *before]
        try:
            return fn(*args)
        finally:
            space["filters"] = before

    for name, value in getattr(fn, "__dict__", {}).items():
        setattr(run, name, value)
    return run


def globals_of(file: str) -> dict[str, Any]:
    """Those of the module in `file`, where Python notes what it has shown."""
    found = (m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType) and getattr(m, "__file__", None) == file)
    return next((vars(m) for m in found), {})
