"""Our packages under names that only we see, where a program has modules of the same names beside it.

`sys.modules` belongs to the program: `import dynamo` in it finds its own `dynamo.py`. Modules of ours keep importing each other by name;
while one of them does, ours stand in `sys.modules`, and the program's wait.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

PACKAGES = ("dynamo", "inductor")


def clashing(paths: Iterable[str], root: str) -> list[str]:
    """Packages of ours whose names something in `paths` has too. `root` is where ours are."""
    found = []
    for name in PACKAGES:
        spec = PathFinder.find_spec(name, list(paths))
        places = [os.path.realpath(p) for p in (spec.submodule_search_locations or [spec.origin or ""])] if spec is not None else []
        if places and os.path.realpath(os.path.join(root, name)) not in places:
            found.append(name)
    return found


class PrivateNames:
    """Ours out of `sys.modules`, and two functions of Python's that put them back while ours import. One per process, for good."""

    def __init__(self, tops: Sequence[str]) -> None:
        self._tops = frozenset(tops)
        self._lock = threading.RLock()
        self._depth = 0
        self._import = builtins.__import__
        self._import_module = importlib.import_module
        self._ours = self._taken()

    def install(self) -> None:
        builtins.__import__ = self._importing
        importlib.import_module = self._importing_module

    def _taken(self) -> dict[str, ModuleType]:
        """All modules below our names, taken out."""
        names = [name for name in sys.modules if name.partition(".")[0] in self._tops]
        return {name: sys.modules.pop(name) for name in names}

    def _is_ours(self, space: Mapping[str, object] | None) -> bool:
        module = self._ours.get(str(space.get("__name__", ""))) if space is not None else None
        return module is not None and vars(module) is space

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        theirs = self._taken()
        sys.modules.update(self._ours)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            self._ours = self._taken()
            sys.modules.update(theirs)

    def _importing(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`builtins.__import__`."""
        if level or name.partition(".")[0] not in self._tops:
            return self._import(name, globals, locals, fromlist or (), level)
        with self._lock:
            if self._depth or not self._is_ours(globals):
                return self._import(name, globals, locals, fromlist or (), level)
            with self._in_place():
                return self._import(name, globals, locals, fromlist or (), level)

    def _importing_module(self, name: str, package: str | None = None) -> ModuleType:
        """`importlib.import_module`."""
        if name.partition(".")[0] not in self._tops:
            return self._import_module(name, package)
        asker: Any = sys._getframe(1).f_globals
        with self._lock:
            if self._depth or not self._is_ours(asker):
                return self._import_module(name, package)
            with self._in_place():
                return self._import_module(name, package)
