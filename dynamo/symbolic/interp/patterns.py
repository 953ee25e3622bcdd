"""Class patterns of `match` statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo.inspection import MATCH_SELF, has_flag
from dynamo.symbolic.protocols.attributes import MISSING, getattr_
from dynamo.symbolic.python.builtin_types import is_instance
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import NONE, ClassValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def _no_class() -> str:
    """The complaint about a class pattern with something else, which changed with 3.12."""
    pattern: Any = 0
    try:
        match pattern:
            case pattern():
                pass
    except TypeError as e:
        return str(e)
    raise AssertionError


_NO_CLASS = _no_class()


def match_class(tx: Tracer, subject: Value, cls: Value, nargs: int, names: tuple[str, ...]) -> Value:
    """MATCH_CLASS: the attributes a class pattern asks for, or None."""
    if not isinstance(cls, ClassValue):
        raise tx.throw(TypeError, _NO_CLASS)
    if not is_instance(tx, subject, cls):
        return NONE
    found: list[Value] = []
    if nargs:
        match_args = tx.lookup(cls.obj, "__match_args__")
        if match_args is MISSING and has_flag(cls.obj, MATCH_SELF):
            match_args, found, limit = (), [subject], 1
        else:
            match_args = () if match_args is MISSING else match_args
            if not isinstance(match_args, tuple):
                shown = type(match_args).__name__
                raise tx.throw(TypeError, f"{cls.obj.__name__}.__match_args__ must be a tuple (got {shown})")
            limit = len(match_args)
        if nargs > limit:
            plural = "" if limit == 1 else "s"
            text = f"{cls.obj.__name__}() accepts {limit} positional sub-pattern{plural} ({nargs} given)"
            raise tx.throw(TypeError, text)
        names = (*match_args[: nargs - len(found)], *names)
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise tx.throw(TypeError, f"__match_args__ elements must be strings (got {type(name).__name__})")
        if name in names[:i]:
            raise tx.throw(TypeError, f"{cls.obj.__name__}() got multiple sub-patterns for attribute {name!r}")
        try:
            found.append(getattr_(tx, subject, name))
        except Raised as e:
            if issubclass(e.value.cls, AttributeError):
                return NONE
            raise
    return tx.make_tuple(found)
