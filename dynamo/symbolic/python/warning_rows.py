"""Warnings: given by the entry, from the line that gives them in the program, under the filters that the program has set there."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

from dynamo.source import const_source
from dynamo.symbolic.attempt.effects import Filter, Place, Warned, WarningScope
from dynamo.symbolic.protocols.attributes import getattr_
from dynamo.symbolic.protocols.operators import truth
from dynamo.symbolic.protocols.registry import FUNCTIONS
from dynamo.symbolic.protocols.rows import on_function
from dynamo.symbolic.values.kinds import NONE, ClassValue, Const, ExceptionValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]


def give(message: Any, category: type[Warning], place: Place, filters: tuple[Filter, ...]) -> None:
    """What the entry does."""
    if not filters:
        _give(message, category, place, 2)
        return
    with warnings.catch_warnings():
        for name, args, kwargs in filters:
            getattr(warnings, name)(*args, **dict(kwargs))
        _give(message, category, place, 2)


def _give(message: Any, category: type[Warning], place: Place, depth: int) -> None:
    file, line, space = place.file, place.line, place.globals
    if place.above:
        frame = sys._getframe(depth)
        for _ in range(place.above):
            frame = frame.f_back if frame is not None else None  # type: ignore[assignment]  # ends with None
        file, line, space = (frame.f_code.co_filename, frame.f_lineno, frame.f_globals) if frame is not None else ("sys", 1, vars(sys))
    registry = space.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, space.get("__name__", "<string>"), registry)


def _place(tx: Tracer, level: int) -> Place:
    frames = [f for f in reversed(tx.frames) if "/dynamo/symbolic/" not in f.code.co_filename]
    at = max(level, 1) - 1
    if at < len(frames):
        return Place(frames[at].code.co_filename, frames[at].line, frames[at].globals)
    return Place("", 0, {}, at - len(frames) + 1)


def _raises_errors(filters: Any) -> bool:
    return any(f[0] == "error" for f in filters)


def _no_errors(filters: Any) -> bool:
    """has no "error" filter"""
    return not _raises_errors(filters)


@on_function(warnings.warn, "message category? stacklevel? source? skip_file_prefixes?")
def _warn(
    tx: Tracer, message: Value, category: Value | None, stacklevel: Value | None, source: Value | None, skip_file_prefixes: Value | None
) -> Value:
    filters = tuple(f for scope in tx.effects.warning_scopes for f in scope.filters)
    if isinstance(message, ExceptionValue):
        kind: Any = message.cls
    else:
        kind = category.obj if isinstance(category, ClassValue) else UserWarning if category is None or _is_none(category) else None
    known = isinstance(kind, type) and issubclass(kind, Warning) and (isinstance(message, ExceptionValue) or message.cls is str)
    level = 1 if stacklevel is None else tx.as_python(stacklevel)
    if not known or source is not None or skip_file_prefixes is not None or type(level) is not int:
        raise tx.break_("DD004", "warnings.warn")
    if _raises_errors(warnings.filters) or _raises_errors([args for _, args, _ in filters if args]):
        raise tx.break_("DD004", "warnings.warn under an error filter")  # it raises where it stands
    source_of_filters = const_source(vars(warnings), "warnings").step("dict_item", "filters", "warnings.filters")
    tx.guard(source_of_filters, "pred", _no_errors)
    tx.effects.warned.append(Warned(message, kind, _place(tx, level), filters, not tx.builder.has_ops))
    return NONE


def _is_none(v: Value) -> bool:
    return isinstance(v, Const) and v.value is None


def _filter_row(name: str) -> None:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        known = tx.try_python(*args, *kwargs.values())
        if known is None or not tx.effects.warning_scopes:
            raise tx.break_("DD004", f"warnings.{name}")
        given = dict(zip(kwargs, known[len(args) :], strict=True))
        scope = tx.effects.warning_scopes[-1]
        action = given.pop("action", None)
        scope.filters.append((name, (action, *known) if action is not None else tuple(known[: len(args)]), tuple(given.items())))
        return NONE

    FUNCTIONS.add(getattr(warnings, name))(row)


_filter_row("simplefilter")
_filter_row("filterwarnings")


@FUNCTIONS.add(warnings.warn_explicit, warnings.resetwarnings)
def _explicit(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD004", "warnings.warn_explicit")


@on_function(warnings.catch_warnings.__enter__, "self")
def _enter(tx: Tracer, self: Value) -> Value:
    """Filters are set where a warning is given; what is caught shows only at run time."""
    plain = getattr(self, "obj", None) is None and not truth(tx, getattr_(tx, self, "_record"))
    if not plain or not _is_none(getattr_(tx, self, "_filter") if sys.version_info >= (3, 11) else NONE):
        raise tx.break_("DD004", "warnings.catch_warnings")
    tx.effects.warning_scopes.append(WarningScope(self, tx.root_step, []))
    return NONE


@on_function(warnings.catch_warnings.__exit__, "self *exc")
def _exit(tx: Tracer, self: Value, exc: Args) -> Value:
    if not tx.effects.warning_scopes or tx.effects.warning_scopes[-1].manager is not self:
        raise tx.break_("DD004", "warnings.catch_warnings")
    tx.effects.warning_scopes.pop()
    return NONE
