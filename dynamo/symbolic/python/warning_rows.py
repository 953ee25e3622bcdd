"""Rows of `warnings`: what is given by the entry, and what is set around it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from dynamo.symbolic.attempt.effects import Warned, WarningScope
from dynamo.symbolic.attempt.warned import can_wait, place, rely_on_waiting
from dynamo.symbolic.protocols.attributes import getattr_
from dynamo.symbolic.protocols.operators import truth
from dynamo.symbolic.protocols.registry import FUNCTIONS
from dynamo.symbolic.protocols.rows import on_function
from dynamo.symbolic.values.kinds import NONE, ClassValue, Const, ExceptionValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]


@on_function(warnings.warn, "| message category? stacklevel? source? * skip_file_prefixes?")
def _warn(
    tx: Tracer, message: Value, category: Value | None, stacklevel: Value | None, source: Value | None, skip_file_prefixes: Value | None
) -> Value:
    if isinstance(message, ExceptionValue):
        kind: Any = message.cls
    else:
        kind = category.obj if isinstance(category, ClassValue) else UserWarning if category is None or _is_none(category) else None
    known = isinstance(kind, type) and issubclass(kind, Warning) and (isinstance(message, ExceptionValue) or message.cls is str)
    level = 1 if stacklevel is None else tx.as_python(stacklevel)
    if not known or source is not None or skip_file_prefixes is not None or type(level) is not int:
        raise tx.break_("DD004", "warnings.warn")
    if tx.effects.raises_warnings():
        raise tx.break_("DD004", "warnings.warn under an error filter")  # it raises where it stands
    if not can_wait(tx.identities, tx.effects):
        raise tx.break_("DD004", "warnings.warn where the function can see which warnings were given")
    rely_on_waiting(tx.guard, tx.identities)
    tx.effects.warned.append(Warned(message, kind, place(tx.frames, level), tx.effects.filters(), not tx.builder.has_ops))
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
    if not plain or not _is_none(getattr_(tx, self, "_filter")):
        raise tx.break_("DD004", "warnings.catch_warnings")
    tx.effects.warning_scopes.append(WarningScope(self, tx.root_step, []))
    return NONE


@on_function(warnings.catch_warnings.__exit__, "self *exc")
def _exit(tx: Tracer, self: Value, exc: Args) -> Value:
    if not tx.effects.warning_scopes or tx.effects.warning_scopes[-1].manager is not self:
        raise tx.break_("DD004", "warnings.catch_warnings")
    tx.effects.warning_scopes.pop()
    return NONE
