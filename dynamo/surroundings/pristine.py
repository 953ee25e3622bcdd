"""Builtins that the program has replaced are put back while the compiler runs: it is written in Python, too, and so is what it calls."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

_MISSING: Any = object()
_BUILTINS: dict[str, Any] = vars(builtins)
_ORIGINAL = {name: obj for name, obj in _BUILTINS.items() if not name.startswith("_") or name == "__import__"}
_replaced: dict[str, Any] = {}


@contextlib.contextmanager
def pristine_builtins() -> Iterator[None]:
    """The builtins are those of when this package was imported; `builtin` tells what the program has in their place."""
    found = {name: _BUILTINS.get(name, _MISSING) for name, obj in _ORIGINAL.items() if _BUILTINS.get(name) is not obj}
    if not found:
        yield
        return
    before = dict(_replaced)
    _replaced.update(found)
    _BUILTINS.update({name: _ORIGINAL[name] for name in found})
    try:
        yield
    finally:
        _replaced.clear()
        _replaced.update(before)
        for name, obj in found.items():
            if obj is _MISSING:
                _BUILTINS.pop(name, None)
            else:
                _BUILTINS[name] = obj


def builtin(table: dict[str, Any], name: str, default: Any) -> Any:
    """What the program finds under `name` in a module's globals or in builtins."""
    if _replaced and table is _BUILTINS and name in _replaced:
        found = _replaced[name]
        return default if found is _MISSING else found
    return table.get(name, default)
