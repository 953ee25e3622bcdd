"""Compiled code ends with what it is about.

A guard names objects of the program: classes, functions, parameters. It holds them weakly, and when one of them dies the entry goes, as its
guards can never hold again. An entry that bakes in parameters of a module goes with the module. So nothing that is compiled keeps an
object of the program alive.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

from dynamo import _C
from dynamo.inspection import HEAP, Mortal, given, has_flag, is_library

_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
_KEPT = (str, bytes, int, float, complex, type(None), tuple, frozenset, types.ModuleType)


def _nothing() -> None:
    return None


class Lifetime:
    """Of one entry: from `begin` until an object dies that it names."""

    def __init__(self) -> None:
        self.over = False
        self._refs: dict[int, Mortal] = {}
        self._baked: list[tuple[Any, str, str, Any]] = []
        self._cache: Callable[[], _C.Cache | None] = _nothing
        self._entry: Callable[[], _C.Entry | None] = _nothing
        me = weakref.ref(self)
        self._on_death = functools.partial(_end, me)  # holds what it calls: objects die while the interpreter ends, too

    def hold(self, obj: object) -> Any:
        """What stands for `obj` in guards: a Mortal, or the object itself if it lives as long as the process or can't be held weakly."""
        if isinstance(obj, _KEPT) or lives_on(obj):
            return obj
        ref = self._refs.get(id(obj))
        if ref is None:
            try:
                ref = self._refs[id(obj)] = Mortal(obj, self._on_death)
            except TypeError:
                return obj
        return ref

    def bake(self, owner: object, table: str, name: str, tensor: object) -> None:
        """A tensor that a module keeps under a name in one of its tables is part of the compiled code."""
        self._baked.append((self.hold(owner), table, name, self.hold(tensor)))

    def is_stale(self) -> bool:
        """Whether a module keeps another tensor now where one was baked in."""
        return any(vars(given(owner))[table].get(name) is not given(tensor) for owner, table, name, tensor in self._baked)

    def begin(self, cache: _C.Cache, entry: _C.Entry) -> None:
        """Put the entry into the cache, until the end."""
        if not self.over:
            self._cache, self._entry = weakref.ref(cache), weakref.ref(entry)
            cache.add(entry)

    def end(self) -> None:
        self.over = True
        cache, entry = self._cache(), self._entry()
        if cache is not None and entry is not None and entry in cache.entries:
            cache.remove(entry)
            graph = getattr(getattr(entry.info, "graph", None), "graph", None)
            if graph is not None:
                graph._owning_module = None  # else the graph module waits for the collector, with the tensors baked into it
            entry.info = None


def _end(ref: weakref.ref[Lifetime], dead: object) -> None:
    lifetime = ref()
    if lifetime is not None:
        lifetime.end()


def lives_on(obj: object) -> bool:
    """Classes and functions that a library defines once and for all, and classes that C code defines."""
    if not isinstance(obj, _NAMED):
        return False
    if isinstance(obj, type) and not has_flag(obj, HEAP):
        return True
    return is_library(str(obj.__module__)) and "<locals>" not in obj.__qualname__
