"""Opcodes of control between frames: calls, functions, generators, imports, exceptions and `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo.bytecode import facts
from dynamo.inspection import c_name
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.interp import refusals
from dynamo.symbolic.interp.foresight import certain_break
from dynamo.symbolic.interp.generators import discard, not_stop_iteration
from dynamo.symbolic.interp.loop import OPS, Return, StopHere, Yield, is_root, op
from dynamo.symbolic.interp.opcodes import target_of, truth
from dynamo.symbolic.protocols import containers, iteration
from dynamo.symbolic.protocols.attributes import MISSING, bind_descriptor, find_attr, getattr_
from dynamo.symbolic.protocols.calls import call
from dynamo.symbolic.python import exception_groups
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    NONE,
    TRUE,
    ClassValue,
    Const,
    ExceptionGroupValue,
    ExceptionValue,
    FunctionValue,
    GeneratorValue,
    Null,
    Value,
)

if TYPE_CHECKING:
    from dynamo.bytecode.decode import Instr
    from dynamo.symbolic.attempt.tracer import Tracer

_HAS_END_SEND = "END_SEND" in facts.OPMAP  # 3.12+: SEND leaves the receiver for END_SEND to drop


# ---- functions --------------------------------------------------------------------------------------------


@op("CALL")
def _call(tx: Tracer, f: Frame, ins: Instr) -> None:
    if is_root(tx, f):
        _stop_before_break(tx, f, ins.arg)
    _finish_call(tx, f, ins.arg, ins.argval if isinstance(ins.argval, tuple) else ())


@op("CALL_KW")
def _call_kw(tx: Tracer, f: Frame, ins: Instr) -> None:
    if is_root(tx, f):
        _stop_before_break(tx, f, ins.arg + 1)
    _finish_call(tx, f, ins.arg, tx.as_python(f.pop()))


def _finish_call(tx: Tracer, f: Frame, nargs: int, names: tuple[Any, ...]) -> None:
    args = f.popn(nargs)
    second, first = f.pop(), f.pop()
    fn, self_ = _callee(first, second)
    if self_ is not None:
        args.insert(0, self_)
    f.calling = fn
    if not names and isinstance(fn, ClassValue) and fn.obj is bool and len(args) == 1:
        f.push(truth(refusals.decide_result(tx, args[0])))
        return
    split = len(args) - len(names)
    f.push(call(tx, fn, args[:split], dict(zip(names, args[split:], strict=True))))


def _stop_before_break(tx: Tracer, f: Frame, above: int) -> None:
    """Stop at a call that is sure to be a break. `above`: items on the stack above the callee and what stands beside it."""
    fn, self_ = _callee(f.stack[-above - 2], f.stack[-above - 1])
    reason = certain_break(tx, fn, self_ if self_ is not None or not above else f.stack[-above])
    if reason is not None:
        raise StopHere(reason)


def _callee(first: Value, second: Value) -> tuple[Value, Value | None]:
    """The two stack entries below the arguments: (callable, self) or a callable beside NULL."""
    if isinstance(first, Null):
        return second, None
    if isinstance(second, Null):
        return first, None
    return first, second


@op("CALL_FUNCTION_EX")
def _call_function_ex(tx: Tracer, f: Frame, ins: Instr) -> None:
    kwargs = f.pop() if ins.arg & 1 else None
    args = f.pop()
    if facts.NULL_AFTER_CALLABLE:
        f.pop()
        fn = f.pop()
    else:
        fn = f.pop()
        f.pop()
    kw: dict[str, Value] = {}
    if kwargs is not None:
        for k, v in containers.mapping_items(tx, kwargs):
            name = tx.as_python(k)
            if not isinstance(name, str):
                raise tx.throw(TypeError, "keywords must be strings")
            kw[name] = v
    if not containers.is_iterable(args):
        raise tx.throw(TypeError, f"{containers.shown_callable(fn)} argument after * must be an iterable, not {c_name(args.cls)}")
    f.push(call(tx, fn, iteration.unpack_iterable(tx, args, with_room=True), kw))


@op("MAKE_FUNCTION")
def _make_function(tx: Tracer, f: Frame, ins: Instr) -> None:
    code = tx.as_python(f.pop())
    fn = FunctionValue(None)
    fn.code, fn.globals = code, f.globals
    fn.name, fn.qualname = code.co_name, code.co_qualname
    if ins.arg & 8:
        fn.closure = list(f.pop().items)  # type: ignore[attr-defined]  # a tuple of cells
    else:
        fn.closure = []
    if ins.arg & 4:
        fn.annotations = f.pop()
    fn.kwdefaults = f.pop() if ins.arg & 2 else NONE
    fn.defaults = f.pop() if ins.arg & 1 else NONE
    f.push(fn)


@op("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(tx: Tracer, f: Frame, ins: Instr) -> None:
    fn, v = f.pop(), f.pop()
    assert isinstance(fn, FunctionValue)
    if ins.arg == 8:
        fn.closure = list(v.items)  # type: ignore[attr-defined]  # a tuple of cells
    elif ins.arg == 4:
        fn.annotations = v
    elif ins.arg == 2:
        fn.kwdefaults = v
    else:
        fn.defaults = v
    f.push(fn)


@op("RETURN_VALUE")
def _return_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    result = f.pop()
    discard(tx, f.stack)
    if any(type(v) is GeneratorValue for v in f.slots):
        discard(tx, f.slots)
    raise Return(result)


@op("RETURN_GENERATOR")
def _return_generator(tx: Tracer, f: Frame, ins: Instr) -> None:
    # The generator object exists already (calls.inline made it); POP_TOP that follows drops what a first send leaves.
    f.push(NONE)


@op("YIELD_VALUE")
def _yield_value(tx: Tracer, f: Frame, ins: Instr) -> None:
    raise Yield(f.pop())


@op("SEND")
def _send(tx: Tracer, f: Frame, ins: Instr) -> None:
    v = f.pop()
    done, result = iteration.send(tx, f.stack[-1], v)
    if done:
        if _HAS_END_SEND:
            f.push(result)
        else:
            f.stack[-1] = result
        f.ip = target_of(ins)
    else:
        f.push(result)


@op("END_SEND")
def _end_send(tx: Tracer, f: Frame, ins: Instr) -> None:
    del f.stack[-2]


@op("IMPORT_NAME")
def _import_name(tx: Tracer, f: Frame, ins: Instr) -> None:
    names, level = tx.as_python(f.pop()), tx.as_python(f.pop())
    f.push(containers.import_name(tx, f.globals, str(ins.argval), names, level))


@op("IMPORT_FROM")
def _import_from(tx: Tracer, f: Frame, ins: Instr) -> None:
    found = find_attr(tx, f.stack[-1], str(ins.argval))
    f.push(found if found is not None else containers.submodule(tx, f.stack[-1], str(ins.argval)))


# ---- exceptions and with ----------------------------------------------------------------------------------


@op("RAISE_VARARGS")
def _raise_varargs(tx: Tracer, f: Frame, ins: Instr) -> None:
    cause = f.pop() if ins.arg == 2 else None
    if ins.arg == 0:
        if not f.handled:
            handled = next((g.handled[-1] for g in reversed(tx.frames) if g.handled), None)
            if handled is None:
                raise tx.throw(RuntimeError, "No active exception to reraise")
            raise Raised(handled)
        raise Raised(f.handled[-1])
    exc = _as_exception(tx, f.pop())
    if cause is not None:
        none = isinstance(cause, Const) and cause.value is None
        exc.slots["__cause__"] = cause if none else _as_exception(tx, cause, "exception causes")
        exc.slots["__suppress_context__"] = TRUE
    if isinstance(exc, ExceptionGroupValue):
        exc.like = object()
    raise Raised(exc)


def _as_exception(tx: Tracer, v: Value, what: str = "exceptions") -> ExceptionValue:
    if isinstance(v, ClassValue) and issubclass(v.obj, BaseException):
        v = call(tx, v, [], {})
    if isinstance(v, ExceptionValue):
        return v
    raise tx.throw(TypeError, f"{what} must derive from BaseException")


@op("PUSH_EXC_INFO")
def _push_exc_info(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.pop()
    f.push(f.handled[-1] if f.handled else NONE)
    f.push(exc)
    f.handled.append(exc)


@op("POP_EXCEPT")
def _pop_except(tx: Tracer, f: Frame, ins: Instr) -> None:
    f.pop()
    if f.handled:
        f.handled.pop()


@op("CHECK_EXC_MATCH")
def _check_exc_match(tx: Tracer, f: Frame, ins: Instr) -> None:
    kinds = tx.as_python(f.pop())
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise tx.throw(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    f.push(truth(issubclass(f.stack[-1].cls, kinds)))


@op("CHECK_EG_MATCH")
def _check_eg_match(tx: Tracer, f: Frame, ins: Instr) -> None:
    kinds, exc = f.pop(), f.pop()
    matched, rest = exception_groups.match(tx, exc, kinds)
    f.push(rest)
    f.push(matched)
    if matched is not NONE:
        f.handled[-1] = matched


@op("PREP_RERAISE_STAR")
def _prep_reraise_star(tx: Tracer, f: Frame, ins: Instr) -> None:
    outcomes, original = f.pop(), f.pop()
    f.push(exception_groups.reraise(tx, original, outcomes))


@op("RERAISE")
def _reraise(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.pop()
    assert isinstance(exc, ExceptionValue)
    raise Raised(exc)


@op("BEFORE_WITH")
def _before_with(tx: Tracer, f: Frame, ins: Instr) -> None:
    manager = f.pop()
    enter, leave = _special(tx, manager, "__enter__"), _special(tx, manager, "__exit__", " (missed __exit__ method)")
    result = call(tx, enter, [], {})
    f.push(leave)
    f.push(result)


def _special(tx: Tracer, manager: Value, name: str, what: str = "") -> Value:
    raw = tx.lookup(manager.cls, name)
    found = bind_descriptor(tx, raw, manager, manager.cls, name) if raw is not MISSING else None
    if found is None:
        raise tx.throw(TypeError, f"'{c_name(manager.cls)}' object does not support the context manager protocol{what}")
    return found


@op("WITH_EXCEPT_START")
def _with_except_start(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc, leave = f.stack[-1], f.stack[-4]
    f.push(call(tx, leave, [tx.wrap(exc.cls, None), exc, getattr_(tx, exc, "__traceback__")], {}))


# STOPITERATION_ERROR (3.12+, CALL_INTRINSIC_1): a StopIteration that leaves a generator becomes a RuntimeError.
@op("STOPITERATION_ERROR")
def _stopiteration_error(tx: Tracer, f: Frame, ins: Instr) -> None:
    exc = f.stack[-1]
    assert isinstance(exc, ExceptionValue)
    f.stack[-1] = not_stop_iteration(tx, Raised(exc)).value


@op("CALL_INTRINSIC_1")
def _call_intrinsic_1(tx: Tracer, f: Frame, ins: Instr) -> None:
    name = str(ins.argval).removeprefix("INTRINSIC_")
    handler = OPS.get(name)
    if handler is None:
        raise tx.break_("DD016", name)
    handler(tx, f, ins)
