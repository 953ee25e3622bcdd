"""Generators of inlined functions: a suspended frame that is run again.

`resume(tx, gen, sent)` takes one step; `throw` enters the frame with an exception where it is suspended.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.interp.loop import Yield, run, unwind
from dynamo.symbolic.protocols.attributes import find_attr, tx_call
from dynamo.symbolic.protocols.registry import getset
from dynamo.symbolic.protocols.rows import on_method
from dynamo.symbolic.python.iterators import next_or_stop
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import NONE, TRUE, ClassValue, Const, ExceptionValue, GeneratorValue, IterValue, OpaqueValue, Value
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def resume(tx: Tracer, gen: GeneratorValue, sent: Value) -> tuple[bool, Value]:
    """One step: (False, yielded value) or (True, returned value)."""
    frame: Frame = gen.frame
    if gen.state == "running":
        raise tx.throw(ValueError, "generator already executing")
    if gen.state == "closed":
        return True, NONE
    if gen.state == "suspended":
        frame.push(sent)
    elif not (isinstance(sent, Const) and sent.value is None):
        raise tx.throw(TypeError, "can't send non-None value to a just-started generator")
    return _run(tx, gen, frame)


def _run(tx: Tracer, gen: GeneratorValue, frame: Frame) -> tuple[bool, Value]:
    gen.state = "running"
    frame.parent = tx.frame if tx.frames else None
    try:
        result = run(tx, frame)
    except Yield as y:
        gen.state = "suspended"
        return False, y.value
    except Raised as e:
        gen.state = "closed"
        raise not_stop_iteration(tx, e) from e
    except BaseException:
        gen.state = "closed"
        raise
    gen.state = "closed"
    return True, result


def not_stop_iteration(tx: Tracer, e: Raised) -> Raised:
    """PEP 479: a StopIteration that leaves a generator is a RuntimeError."""
    if not issubclass(e.value.cls, StopIteration):
        return e
    out = tx.throw(RuntimeError, "generator raised StopIteration")
    assert isinstance(out.value, ExceptionValue)
    out.value.slots |= {"__cause__": e.value, "__context__": e.value, "__suppress_context__": TRUE}
    return out


def throw(tx: Tracer, gen: GeneratorValue, exc: ExceptionValue) -> tuple[bool, Value]:
    """Raise `exc` where the generator is suspended, and run on."""
    frame: Frame = gen.frame
    if gen.state == "running":
        raise tx.throw(ValueError, "generator already executing")
    if gen.state != "suspended":
        gen.state = "closed"
        raise Raised(exc)
    inner = _delegate(frame)
    if inner is not None:
        try:
            done, v = _throw_into(tx, inner, exc)
        except Raised as e:
            frame.stack.pop()
            return _enter(tx, gen, frame, e)
        if not done:
            return False, v
        return _leave_delegation(tx, gen, frame, v)
    return _enter(tx, gen, frame, Raised(exc))


def _enter(tx: Tracer, gen: GeneratorValue, frame: Frame, e: Raised) -> tuple[bool, Value]:
    try:
        unwind(tx, frame, e, False)
    except Raised as out:
        gen.state = "closed"
        raise not_stop_iteration(tx, out) from out
    return _run(tx, gen, frame)


def _delegate(frame: Frame) -> Value | None:
    """The iterator of the `yield from` the frame is suspended in."""
    code = frame.program.normal
    after = code[frame.ip] if frame.ip < len(code) else None
    return frame.stack[-1] if after is not None and after.op == "RESUME" and after.arg & 3 >= 2 else None


def _throw_into(tx: Tracer, inner: Value, exc: ExceptionValue) -> tuple[bool, Value]:
    if isinstance(inner, GeneratorValue):
        if issubclass(exc.cls, GeneratorExit):
            close(tx, inner)
            raise Raised(exc)
        return throw(tx, inner, exc)
    method = find_attr(tx, inner, "throw") if not isinstance(inner, IterValue) else None
    if method is None:
        raise Raised(exc)
    try:
        return False, tx_call(tx, method, [exc])
    except Raised as e:
        if isinstance(e.value, ExceptionValue) and issubclass(e.value.cls, StopIteration):
            return True, e.value.args[0] if e.value.args else NONE
        raise


def _leave_delegation(tx: Tracer, gen: GeneratorValue, frame: Frame, v: Value) -> tuple[bool, Value]:
    """The inner iterator ended while it handled the exception: its result is the value of `yield from`."""
    code = frame.program.normal
    send = next(i for i in range(frame.current, -1, -1) if code[i].op == "SEND")
    target = code[send].target
    assert target is not None
    if code[target].op != "END_SEND":
        frame.stack.pop()
    frame.push(v)
    frame.ip = target
    return _run(tx, gen, frame)


def close(tx: Tracer, gen: GeneratorValue) -> Value:
    if gen.state != "suspended":
        gen.state = "closed"
        return NONE
    try:
        done, v = throw(tx, gen, ExceptionValue(GeneratorExit, []))
    except Raised as e:
        if issubclass(e.value.cls, GeneratorExit | StopIteration):
            return NONE
        raise
    if not done:
        raise tx.throw(RuntimeError, "generator ignored GeneratorExit")
    return v if _CLOSE_RETURNS else NONE


def discard(tx: Tracer, held: list[Any]) -> None:
    """Drop what a stack or a frame held. CPython closes a suspended generator when nobody has it any more, which runs its `finally`.

    Values are shared exactly as the program's objects are, so the reference count of the value says whether somebody has.
    """
    held.reverse()
    while held:
        v = held.pop()
        if type(v) is GeneratorValue and v.state == "suspended" and sys.getrefcount(v) <= 2:
            close(tx, v)


def _close_returns_value() -> bool:
    """Since 3.13 close() gives what the generator returns."""

    def g():  # type: ignore[no-untyped-def]  # a probe
        try:
            yield
        except GeneratorExit:
            return 1

    it = g()
    next(it)
    return it.close() == 1


_CLOSE_RETURNS = _close_returns_value()


def as_exception(tx: Tracer, kind: Value, value: Value | None = None) -> ExceptionValue:
    """What `throw(type, value)` raises."""
    if isinstance(kind, ClassValue) and issubclass(kind.obj, BaseException):
        if isinstance(value, ExceptionValue) and issubclass(value.cls, kind.obj):
            return value
        kind = tx_call(tx, kind, [value] if value is not None and value is not NONE else [])
    if isinstance(kind, ExceptionValue):
        return kind
    raise tx.throw(TypeError, f"exceptions must be classes or instances deriving from BaseException, not {c_name(kind.cls)}")


# ---- methods ----------------------------------------------------------------------------------------------

_GEN = types.GeneratorType


@on_method(_GEN, "send", "value", GeneratorValue)
def _send(tx: Tracer, self: GeneratorValue, value: Value) -> Value:
    return _outcome(tx, *resume(tx, self, value))


@on_method(_GEN, "throw", "type value? traceback?", GeneratorValue)
def _throw(tx: Tracer, self: GeneratorValue, kind: Value, value: Value | None, traceback: Value | None) -> Value:
    return _outcome(tx, *throw(tx, self, as_exception(tx, kind, value)))


def _outcome(tx: Tracer, done: bool, v: Value) -> Value:
    if done:
        raise tx.throw(StopIteration, *([] if isinstance(v, Const) and v.value is None else [v]))
    return v


@on_method(_GEN, "close", "", GeneratorValue)
def _close(tx: Tracer, self: GeneratorValue) -> Value:
    return close(tx, self)


@on_method(_GEN, "__next__", "", GeneratorValue)
def _next(tx: Tracer, self: GeneratorValue) -> Value:
    return next_or_stop(tx, self)


def _of_frame(raw: Any) -> Callable[[Callable[[Tracer, GeneratorValue], Value]], Any]:
    """Declare an attribute that the trace knows of its own generators; those that were there before have a frame of CPython's."""

    def put(handler: Callable[[Tracer, GeneratorValue], Value]) -> Any:
        def row(tx: Tracer, self: Value) -> Value:
            if not isinstance(self, GeneratorValue):
                raise tx.break_("DD014", f"attribute {raw.__name__!r} of {self.describe()}")
            return handler(tx, self)

        return getset(raw)(row)

    return put


@_of_frame(_GEN.gi_running)
def _running(tx: Tracer, self: GeneratorValue) -> Value:
    return tx.wrap(self.state == "running", None)


@_of_frame(_GEN.gi_suspended)
def _suspended(tx: Tracer, self: GeneratorValue) -> Value:
    return tx.wrap(self.state == "suspended", None)


@_of_frame(_GEN.gi_code)
def _code(tx: Tracer, self: GeneratorValue) -> Value:
    return OpaqueValue(types.CodeType, self.frame.code, None)


@_of_frame(_GEN.gi_yieldfrom)
def _yieldfrom(tx: Tracer, self: GeneratorValue) -> Value:
    inner = _delegate(self.frame) if self.state == "suspended" else None
    return inner if inner is not None else NONE


def _next_of(tx: Tracer, gen: GeneratorValue) -> Value | None:
    done, v = resume(tx, gen, NONE)
    return None if done else v


fill(GeneratorValue, next=_next_of, send=resume)
