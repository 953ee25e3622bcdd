"""What the user said about functions, classes and modules: `allow_in_graph`, `disallow_in_graph`, `disable`, `assume_constant_result`.

Marks are kept beside the objects, not on them, so that builtins can be marked and nothing of the user's is changed.
"""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Marks(Generic[T]):
    """Objects by identity, with a value each; an object's mark goes when the object does."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[Any, T]] = {}

    def put(self, obj: object, value: T) -> None:
        key = id(obj)
        try:
            ref: Any = weakref.ref(obj, lambda _: self._rows.pop(key, None))
        except TypeError:  # kinds without weak references are kept alive instead
            ref = _Strong(obj)
        self._rows[key] = (ref, value)

    def get(self, obj: object) -> T | None:
        row = self._rows.get(id(obj))
        return row[1] if row is not None and row[0]() is obj else None


class _Strong:
    def __init__(self, obj: object) -> None:
        self.obj = obj

    def __call__(self) -> object:
        return self.obj


_graph: Marks[bool] = Marks()  # True: a leaf of the graph; False: never in a graph
_disabled: Marks[bool] = Marks()  # value: recursive
_constant: Marks[bool] = Marks()
_reasons: Marks[str] = Marks()  # of disabled functions


def mark_allowed(fn: Any) -> Any:
    """Put calls of `fn` (or of each in a list) into the graph as they are, without looking inside. Returns `fn`."""
    return _mark_each(fn, True)


def mark_disallowed(fn: Any) -> Any:
    """Break the graph at calls of `fn` (or of each in a list). Returns `fn`."""
    return _mark_each(fn, False)


def _mark_each(fn: Any, verdict: bool) -> Any:
    for one in fn if isinstance(fn, list | tuple) else (fn,):
        if not callable(one):
            raise TypeError(f"expected a callable, got {type(one).__name__}")
        _graph.put(one, verdict)
    return fn


def mark_disabled(fn: object, recursive: bool = True, reason: str = "") -> None:
    """Run `fn` natively; with `recursive` also everything it calls. `reason` is what the user says about it."""
    _disabled.put(fn, recursive)
    if reason:
        _reasons.put(fn, reason)


def mark_constant(fn: object) -> None:
    """Take what `fn` returns while tracing as its result for ever."""
    _constant.put(fn, True)


def allowed(fn: object) -> bool | None:
    """True when allowed in the graph, False when disallowed, None when nothing was said."""
    return _graph.get(fn)


def disabled(fn: object) -> bool | None:
    """None when not disabled, else whether the mark is recursive."""
    return _disabled.get(fn)


def reason(fn: object) -> str:
    """Why it is disabled, '' when nobody said."""
    return _reasons.get(fn) or ""


def constant(fn: object) -> bool:
    return bool(_constant.get(fn))
