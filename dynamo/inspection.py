"""Looking at objects of the program without running any code of theirs: no `__getattr__`, no `__class__` property, no descriptor."""

from __future__ import annotations

import _thread
import functools
import sys
import types
import weakref
from typing import Any

# Flags of types: Include/object.h.
SEQUENCE = 1 << 5  # a `case [...]` matches instances
MAPPING = 1 << 6  # a `case {...}` does
UNMADE = 1 << 7  # calls of the class make no instances
IMMUTABLE = 1 << 8  # attributes of the class can't be set
HEAP = 1 << 9  # made by a class statement (or by C code in its way)
MATCH_SELF = 1 << 22  # `case cls(x)` binds the subject itself

# Python refuses to write out integers of some thousand digits (`sys.set_int_max_str_digits`).
WRITTEN_BITS = 1024

_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def is_a(obj: object, *classes: type) -> bool:
    """isinstance() by the real type; `__class__` may be a property."""
    return issubclass(type(obj), classes)


def has_flag(cls: type, flag: int) -> bool:
    """Whether one of the flags above is set on a type."""
    return bool(cls.__flags__ & flag)


def is_statement(cls: type) -> bool:
    """Was the class made by a class statement? C code's own state, in the files of `io` for one, is in none of its attributes."""
    return has_flag(cls, HEAP) and not has_flag(cls, IMMUTABLE)


def c_name(cls: type) -> str:
    """The name of a class in errors of C code (`tp_name`): classes that C code made have their module in it, unless it is `builtins`."""
    other = str if issubclass(cls, int) else int
    try:
        other.__new__(cls)
    except TypeError as e:  # "int.__new__(NAME): NAME is not a subtype of int", before anything of the class is asked
        text = str(e).removeprefix(f"{other.__name__}.__new__(").removesuffix(f" is not a subtype of {other.__name__}")
        return text[: (len(text) - len("): ")) // 2]
    raise AssertionError(cls)


def attributes_of(obj: Any) -> dict[str, Any] | None:
    """The dict that keeps the attributes of `obj`, None where it has none or its class hides it."""
    if issubclass(type(obj), _thread._local):  # this thread's
        return _thread._local.__getattribute__(obj, "__dict__")
    for cls in type(obj).__mro__:
        raw = cls.__dict__.get("__dict__")
        if raw is not None:
            found = raw.__get__(obj, type(obj)) if isinstance(raw, _SLOTS) else None
            return found if isinstance(found, dict) else None
    return None


class Mortal(weakref.ref):
    """A weak reference in place of an object in guards; a reference that is itself the object is no Mortal."""

    __slots__ = ()


def given(held: Any) -> Any:
    """The object that `held` stands for; None when it has died."""
    return held() if isinstance(held, Mortal) else held


def written(value: object) -> str:
    """The `repr` of a plain value, for people, but for integers that Python refuses to write out, and what holds one."""
    if type(value) is int and value.bit_length() > WRITTEN_BITS:
        return f"an integer of {value.bit_length()} bits"
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} too long to be written out"


@functools.cache
def is_library(module: str) -> bool:
    """Modules whose contents don't change while a program runs."""
    top = module.partition(".")[0]
    return top in ("torch", "numpy", "typing_extensions") or top in sys.stdlib_module_names
