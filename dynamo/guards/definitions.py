"""What names meant while code was traced: every name that tracing looked up in a module, along the bases of a class, or in builtins.

They are guarded together, by a word per module, class and function (see `dynamo/csrc/defined.c`), so a replaced function or method is
seen wherever it was looked up, at a cost that doesn't grow with the number of names.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from dynamo import _C
from dynamo.inspection import HEAP, IMMUTABLE, has_flag

MISSING: Any = object()
# Descriptors that only lead to functions: the function is what counts, and unlike them it can be referred to weakly.
_PARTS: dict[type, tuple[str, ...]] = {staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel")}


def lookup(cls: type, name: str) -> Any:
    """Raw entry of `name` along the MRO, or MISSING; never runs user code."""
    for c in cls.__mro__:
        if name in c.__dict__:
            return c.__dict__[name]
    return MISSING


Hold = Callable[[object], Any]


class Definitions:
    """Facts by holder. The first one of a name counts: whatever was traced later was traced under the same definitions."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], tuple[str, Any, dict[Any, Any]]] = {}

    def _facts(self, kind: str, holder: Any) -> dict[Any, Any]:
        key = (kind, id(holder))
        row = self._holders.get(key)
        if row is None:
            row = self._holders[key] = (kind, holder, {})
        return row[2]

    def of_class(self, cls: type, name: str, raw: Any) -> None:
        """`raw` was found under `name` along the bases of `cls`, or nothing was (MISSING)."""
        if not has_flag(cls, IMMUTABLE):
            self._facts("class", cls).setdefault(name, raw)

    def of_class_itself(self, cls: type, name: str, raw: Any) -> None:
        """`raw`, or MISSING, is in the class's own dict."""
        if not has_flag(cls, IMMUTABLE):
            self._facts("own", cls).setdefault(name, raw)

    def of_bases(self, cls: type) -> None:
        """The class has the bases that it has, in that order."""
        if not has_flag(cls, IMMUTABLE) and has_flag(cls, HEAP):
            facts = self._facts("bases", cls)
            for place, base in enumerate((*cls.__mro__[1:], MISSING), 1):
                facts.setdefault(place, base)

    def of_dict(self, holder: dict[str, Any], name: str, value: Any) -> None:
        """A module's globals, or builtins, have `value` under `name`, or (MISSING) no such name."""
        self._facts("dict", holder).setdefault(name, value)

    def of_function(self, fn: types.FunctionType) -> None:
        """The function runs its code."""
        self._facts("function", fn).setdefault("__code__", fn.__code__)

    def used_by(self, fn: types.FunctionType, *spaces: dict[str, Any]) -> None:
        """A library function that is not looked into: the names that its code uses, in its globals and in `spaces`."""
        for name in fn.__code__.co_names:
            for space in (fn.__globals__, *spaces):
                if name in space:
                    self.of_dict(space, name, space[name])

    def freeze(self, hold: Hold) -> _C.Definitions | None:
        """For the guard tree. `hold` gives what stands for an object there: the object, or a weak reference to it."""
        rows = tuple(
            (kind, holder if kind == "dict" else hold(holder), tuple(f for name, x in facts.items() for f in _frozen(kind, name, x, hold)))
            for kind, holder, facts in self._holders.values()
        )
        return _C.Definitions(rows) if rows else None


def _frozen(kind: str, name: Any, found: Any, hold: Hold) -> list[tuple[Any, ...]]:
    if found is MISSING:
        return [(name,)]
    if kind not in ("class", "own"):
        return [(name, hold(found))]
    parts = _PARTS.get(type(found))
    if parts is not None:
        return [(name, type(found), part, hold(getattr(found, part))) for part in parts]
    if _is_data(found):
        return [(name, type(found), None, None)]  # what the value is is guarded where it is read
    return [(name, hold(found))]


def _is_data(found: Any) -> bool:
    return not hasattr(type(found), "__get__") and not callable(found)
