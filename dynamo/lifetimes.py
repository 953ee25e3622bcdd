"""Compiled code ends with what it is about.

A guard names objects of the program: classes, functions, parameters. It holds them weakly, and when one of them dies the entry goes, as its
guards can never hold again. An entry that bakes in parameters of a module goes with the module. So nothing that is compiled keeps an
object of the program alive.
"""

from __future__ import annotations

import types
import weakref
from typing import Any

from dynamo import _C
from dynamo.symbolic.attributes import is_library

_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
_KEPT = (str, bytes, int, float, complex, type(None), tuple, frozenset, types.ModuleType)


class Mortal(weakref.ref):
    """A weak reference in place of an object in guards; a reference that is itself the object is no Mortal."""

    __slots__ = ()


def given(held: Any) -> Any:
    """The object that `held` stands for; None when it has died."""
    return held() if isinstance(held, Mortal) else held


class Lifetime:
    """Of one entry: from `begin` until an object dies that it names."""

    def __init__(self) -> None:
        self.over = False
        self._refs: dict[int, Mortal] = {}
        self._where: tuple[weakref.ref[_C.Cache], weakref.ref[_C.Entry]] | None = None
        me = weakref.ref(self)
        self._on_death = lambda _: _end(me)

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

    def begin(self, cache: _C.Cache, entry: _C.Entry) -> None:
        """Put the entry into the cache, until the end."""
        if not self.over:
            self._where = weakref.ref(cache), weakref.ref(entry)
            cache.add(entry)

    def end(self) -> None:
        self.over = True
        cache, entry = (ref() for ref in self._where) if self._where is not None else (None, None)
        self._where = None
        if isinstance(cache, _C.Cache) and isinstance(entry, _C.Entry) and entry in cache.entries:
            cache.remove(entry)
            entry.info = None  # refers back to the entry


def _end(ref: weakref.ref[Lifetime]) -> None:
    lifetime = ref()
    if lifetime is not None:
        lifetime.end()


def lives_on(obj: object) -> bool:
    """Classes and functions that a library defines once and for all, and classes that C code defines."""
    if not isinstance(obj, _NAMED):
        return False
    if isinstance(obj, type) and not obj.__flags__ & (1 << 9):
        return True
    return is_library(str(obj.__module__)) and "<locals>" not in obj.__qualname__
