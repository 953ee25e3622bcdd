"""Writing handler rows: declare the parameters of a C callable once, get checked `Value`s by position.

    @on_method(list, "pop", "index?", kind=ListValue)
    def _pop(tx, self, index): ...

Parameter words: `x` required, `x?` optional (None when missing), `*xs` the rest as a list; all are positional-only up to `|`,
then positional or keyword; after `*` keyword-only; `**` collects keywords into a dict. A call that doesn't fit raises the TypeError
that CPython gives for it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.protocols.registry import CONSTRUCTORS, FUNCTIONS, METHODS
from dynamo.symbolic.values.kinds import ClassValue, FunctionValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

H = TypeVar("H", bound=Callable[..., Any])


@dataclass
class Params:
    """A parsed parameter list."""

    names: list[str] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    by_position: int = 0
    by_keyword_from: int = 0
    rest: bool = False
    keywords: bool = False


@functools.cache
def parse(spec: str) -> Params:
    p = Params()
    keyword_from: int | None = None
    position_done = False
    for word in spec.split():
        if word == "|":
            keyword_from = len(p.names)
        elif word == "*":
            keyword_from = len(p.names) if keyword_from is None else keyword_from
            position_done = True
        elif word == "**":
            p.keywords = True
        elif word.startswith("*"):
            p.rest = position_done = True
        else:
            name = word.rstrip("?")
            p.names.append(name)
            if name == word:
                p.required.add(name)
            p.by_position += not position_done
    p.by_keyword_from = len(p.names) if keyword_from is None else keyword_from
    return p


def bind(tx: Tracer, real: Any, spec: str, args: list[Value], kwargs: dict[str, Value]) -> list[Any]:
    """Arguments in the order of the spec: parameters, then the rest list, then the keyword dict."""
    p = parse(spec)
    out: list[Any] = [*args[: p.by_position], *[None] * (len(p.names) - min(len(args), p.by_position))]
    if len(args) > p.by_position and not p.rest:
        raise misfit(tx, real, args, kwargs)
    extra: dict[str, Value] = {}
    for name, v in kwargs.items():
        i = p.names.index(name) if name in p.names else -1
        if i >= p.by_keyword_from and out[i] is None:
            out[i] = v
        elif p.keywords and i < p.by_keyword_from:
            extra[name] = v
        else:
            raise misfit(tx, real, args, kwargs)
    if any(v is None and n in p.required for n, v in zip(p.names, out, strict=True)):
        raise misfit(tx, real, args, kwargs)
    if p.rest:
        out.append(args[p.by_position :])
    if p.keywords:
        out.append(extra)
    return out


def misfit(tx: Tracer, real: Any, args: list[Value], kwargs: dict[str, Value]) -> Exception:
    """CPython's own complaint about the number and names of arguments, from a call with placeholders."""
    try:
        real(*[()] * len(args), **dict.fromkeys(kwargs, ()))
    except TypeError as e:
        return tx.throw(TypeError, str(e))
    except Exception:  # noqa: BLE001  # the placeholders were wrong in another way: fall through to a plain text
        pass
    name = getattr(real, "__name__", str(real))
    return tx.throw(TypeError, f"{name}() got unexpected arguments")


def on_function(real: Any, spec: str = "") -> Callable[[H], H]:
    """A row of FUNCTIONS: `handler(tx, *bound)`."""

    def put(handler: H) -> H:
        def row(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
            return handler(tx, *bind(tx, real, spec, args, kwargs))

        FUNCTIONS.add(real)(row)
        return handler

    return put


def on_class(real: type, spec: str = "") -> Callable[[H], H]:
    """A row of CONSTRUCTORS, and of FUNCTIONS for the type's `__new__`: `handler(tx, cls, *bound)`."""

    def put(handler: H) -> H:
        def row(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
            return handler(tx, cls, *bind(tx, real, spec, args, kwargs))

        CONSTRUCTORS.add(real)(row)
        new_row(real, row)
        return handler

    return put


def new_row(real: type, row: Callable[..., Value]) -> None:
    """`real.__new__(cls, ...)` called by name."""
    new = real.__dict__.get("__new__")
    if new is None:
        return

    def call_new(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not args or not isinstance(args[0], ClassValue):
            raise tx.throw(TypeError, f"{real.__name__}.__new__(): not enough arguments")
        return row(tx, args[0].obj, args[1:], kwargs)

    FUNCTIONS.add(new)(call_new)


def on_method(owner: type | tuple[type, ...], names: str, spec: str = "", kind: type | tuple[type, ...] = Value) -> Callable[[H], H]:
    """Rows of METHODS for the named methods (of the owners that have them): `handler(tx, self, *bound)`.

    A receiver that is modelled by another kind of value than `kind` is a break: its contents aren't known.
    """
    owners = owner if isinstance(owner, tuple) else (owner,)

    def put(handler: H) -> H:
        for cls in owners:
            for name in names.split():
                raw = cls.__dict__.get(name)
                if raw is not None:
                    METHODS.add(raw)(_method_row(raw, cls, spec, kind, handler))
        return handler

    return put


def _method_row(raw: Any, owner: type, spec: str, kind: type | tuple[type, ...], handler: Callable[..., Any]) -> Callable[..., Value]:
    def row(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if not isinstance(self, kind) or (kind is not Value and not issubclass(self.cls, owner)):
            if issubclass(self.cls, owner):
                raise tx.break_("DD005", f"{owner.__name__}.{raw.__name__} on {self.describe()}")
            text = f"for '{c_name(owner)}' objects doesn't apply to a '{c_name(self.cls)}' object"
            if isinstance(raw, types.WrapperDescriptorType):
                text = f"requires a '{c_name(owner)}' object but received a '{c_name(self.cls)}'"
            text = f"descriptor '{raw.__name__}' {text}"
            raise tx.throw(TypeError, text)
        return handler(tx, self, *bind(tx, functools.partial(_unbound, raw, owner), spec, args, kwargs))

    return row


# Of classes that can't be called without arguments.
_NONE: dict[Any, Any] = {}
_EMPTY = {type(v): v for v in (_NONE.keys(), _NONE.values(), _NONE.items(), slice(None))}


def _unbound(raw: Any, owner: type, *args: Any, **kwargs: Any) -> Any:
    """The method on an empty instance, for its complaint about arguments."""
    try:
        make: Any = owner.__new__
        empty = _EMPTY[owner] if owner in _EMPTY else make(owner)
    except TypeError as e:
        raise LookupError from e
    return raw(empty, *args, **kwargs)


def inlined(tx: Tracer, fn: Any, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
    """Call a Python function of ours (a polyfill) as if the program had called it."""
    return tx_call(tx, FunctionValue(fn), args, kwargs)
