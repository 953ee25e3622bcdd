"""Objects that are no tensors and have a `__torch_function__`: torch's functions called with one become a call of that method.

C functions of torch look for such objects among their arguments and in sequences there, and leave exact tensors out of `types`; functions
written in Python ask `has_torch_function` and call `handle_torch_function`, which counts exact tensors in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.protocols.attributes import MISSING, getattr_, tx_call
from dynamo.symbolic.values.kinds import ClassValue, Const, DictValue, ListValue, ObjectValue, OpaqueValue, TensorValue, TupleValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_DISABLED = torch._C._disabled_torch_function_impl


def has_override(tx: Tracer, v: Value) -> bool:
    """Whether torch asks `v` before it does anything. Tensors of other kinds are not captured."""
    if type(v) is not ObjectValue and not isinstance(v, OpaqueValue):
        return False
    raw = tx.lookup(v.cls, "__torch_function__")
    if raw is MISSING or raw is _DISABLED:
        return False
    if isinstance(v, OpaqueValue):
        raise tx.break_("DD011", v.describe())
    return True


def overriding(tx: Tracer, values: Iterable[Value]) -> list[Value]:
    """The objects among arguments that torch asks, also in sequences."""
    found: list[Value] = []
    for v in values:
        for x in tx.items(v.items) if isinstance(v, ListValue | TupleValue) else (v,):
            if type(x) is ObjectValue and has_override(tx, x):
                found.append(x)
    return found


def ask_all(tx: Tracer, fn: Any, found: list[Value], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A C function `fn` with these arguments, of which `found` are asked."""
    return _ask(tx, fn, _by_precedence(found), [tx.make_tuple(args), *([_dict(kwargs)] if kwargs else [])])


def ask_method(tx: Tracer, raw: Any, found: list[Value], args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The same for a C method of tensors."""
    public = _public_method(raw) if raw.__name__.startswith("__") else raw
    if public is None:
        raise tx.break_("DD022", f"{raw.__name__} of a tensor with {found[0].describe()}")
    return ask_all(tx, public, found, args, kwargs)


class _Probe:
    """Its answer is what it was asked about."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func


@cache
def _public_method(raw: Any) -> Any:
    """What a handler is told of an operator: of `__mul__` that is `mul`. None when it isn't asked at all."""
    try:
        found = raw(torch.zeros(1), _Probe())
    except (TypeError, RuntimeError, IndexError):
        return None
    return found if callable(found) else None


def handle(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """torch.overrides.handle_torch_function."""
    fn, relevant = tx.as_python(args[0]), args[1]
    if not isinstance(relevant, ListValue | TupleValue):
        raise tx.break_("DD022", "handle_torch_function")
    asked = [v for v in tx.items(relevant.items) if (isinstance(v, TensorValue) and v.cls is torch.Tensor) or has_override(tx, v)]
    return _ask(tx, fn, _by_precedence(asked), [tx.make_tuple(args[2:]), _dict(kwargs)])


def _by_precedence(values: list[Value]) -> list[Value]:
    """One of each type, in order; instances of a subclass come before those of its bases."""
    chosen: list[Value] = []
    for v in values:
        if any(v.cls is c.cls for c in chosen):
            continue
        at = next((i for i, c in enumerate(chosen) if issubclass(v.cls, c.cls)), len(chosen))
        chosen.insert(at, v)
    return chosen


def _ask(tx: Tracer, fn: Any, asked: list[Value], rest: list[Value]) -> Value:
    types = tx.make_tuple([ClassValue(v.cls) for v in asked])
    for v in asked:
        if isinstance(v, TensorValue):
            continue  # torch.Tensor declines where other types take part
        if not isinstance(tx.lookup(v.cls, "__torch_function__"), classmethod | staticmethod):
            raise tx.break_("DD022", f"__torch_function__ of {v.describe()} as a plain method")
        result = tx_call(tx, getattr_(tx, v, "__torch_function__"), [tx.wrap(fn, None), types, *rest])
        if not (isinstance(result, Const) and result.peek() is NotImplemented):
            return result
    raise tx.break_("DD009", f"all __torch_function__ decline {getattr(fn, '__name__', fn)}")


def _dict(items: dict[str, Value]) -> DictValue:
    d = DictValue()
    d.table = {name: (Const(name), v) for name, v in items.items()}
    return d
