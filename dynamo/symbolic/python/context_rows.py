"""`contextvars.ContextVar`: reads are guarded, writes are kept by the trace and replayed by the entry.

A token exists for the trace alone: code that is left while one is in use continues from before `set`.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from dynamo.source import const_source
from dynamo.symbolic.protocols.registry import method
from dynamo.symbolic.values.kinds import NONE, OpaqueValue, TracingState, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

UNSET = object()  # what a variable with neither value nor default is read as


class TokenValue(TracingState):
    """The token of one `set` of the trace; `before` is what the trace had written until then, None for nothing."""

    cls = contextvars.Token

    def __init__(self, tx: Tracer, var: contextvars.ContextVar[Any]) -> None:
        super().__init__(tx)
        self.var = var
        self.before = tx.effects.context_writes.get(var)
        self.is_used = False


def read(var: contextvars.ContextVar[Any]) -> Any:
    """The value of a variable here and now, its default included, or UNSET."""
    try:
        return var.get()
    except LookupError:
        return UNSET


def has_value(var: contextvars.ContextVar[Any]) -> bool:
    """Whether the variable was set in this context; its default does not count."""
    return var.get(UNSET) is not UNSET


def _current(tx: Tracer, var: contextvars.ContextVar[Any]) -> Value | None:
    if var in tx.effects.context_writes:
        return tx.effects.context_writes[var]
    now = read(var)
    source = const_source(var, f"{var.name}.get()").step("call", read)
    if now is UNSET:
        tx.guard(source, "is", UNSET)
        return None
    return tx.wrap(now, source)


def _variable(tx: Tracer, v: Value) -> contextvars.ContextVar[Any]:
    if isinstance(v, OpaqueValue) and isinstance(v.obj, contextvars.ContextVar):
        if v.source is not None and v.source.kind != "const":
            tx.guard(v.source, "is", v.obj)
        return v.obj
    raise tx.break_("DD005", "a method of a ContextVar that is not known")


@method(contextvars.ContextVar.get)
def _get(tx: Tracer, self_: Value, args: Args, kwargs: Kwargs) -> Value:
    var = _variable(tx, self_)
    if kwargs or len(args) > 1:
        raise tx.throw(TypeError, "ContextVar.get() takes at most one positional argument")
    if args and var not in tx.effects.context_writes:
        is_set = const_source(var, f"{var.name} is set").step("call", has_value)
        tx.guard(is_set, "eq", has_value(var))
        if not has_value(var):
            return args[0]  # which counts before the variable's own default
    found = _current(tx, var)
    if found is None:
        raise tx.throw(LookupError, self_)
    return found


@method(contextvars.ContextVar.set)
def _set(tx: Tracer, self_: Value, args: Args, kwargs: Kwargs) -> Value:
    var = _variable(tx, self_)
    if kwargs or len(args) != 1:
        raise tx.throw(TypeError, f"ContextVar.set() takes exactly one argument ({len(args)} given)")
    token = TokenValue(tx, var)
    tx.effects.context_writes[var] = args[0]
    return token


@method(contextvars.ContextVar.reset)
def _reset(tx: Tracer, self_: Value, args: Args, kwargs: Kwargs) -> Value:
    var = _variable(tx, self_)
    if kwargs or len(args) != 1 or not isinstance(args[0], TokenValue):
        raise tx.break_("DD005", "ContextVar.reset with a token from outside")
    token = args[0]
    if token.var is not var or token.is_used:
        raise tx.break_("DD009", "ContextVar.reset with a token that was used or is another variable's")
    token.is_used = True
    if token.before is None:
        tx.effects.context_writes.pop(var, None)
    else:
        tx.effects.context_writes[var] = token.before
    return NONE
