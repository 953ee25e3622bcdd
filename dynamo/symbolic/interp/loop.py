"""The interpreter loop: frames run instruction by instruction; what each opcode does is a row of `OPS`.

Generators are frames that stop at YIELD_VALUE and are run again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.values.errors import BreakError, NotConstant, Raised
from dynamo.symbolic.values.kinds import Const, ExceptionGroupValue, ExceptionValue, TracebackValue, Value

if TYPE_CHECKING:
    from dynamo.bytecode.decode import Instr
    from dynamo.symbolic.attempt.tracer import Tracer

Handler = Callable[["Tracer", Frame, "Instr"], None]
OPS: dict[str, Handler] = {}


def op(*names: str) -> Callable[[Handler], Handler]:
    """Declare what these opcodes do."""

    def put(fn: Handler) -> Handler:
        for name in names:
            OPS[name] = fn
        return fn

    return put


class Return(Exception):
    """Leaves the loop with the frame's result."""

    def __init__(self, value: Value) -> None:
        self.value = value


class Yield(Exception):
    """Leaves the loop with a yielded value; the frame can be run again."""

    def __init__(self, value: Value) -> None:
        self.value = value


class StopHere(Exception):
    """The root frame reached the step where earlier attempts found a break, or one that is certain to be a break (`reason`)."""

    def __init__(self, reason: BreakError | None = None) -> None:
        self.reason = reason


def run(tx: Tracer, f: Frame) -> Value:
    """Execute until the frame returns. Yield, Raised, BreakError and StopHere pass through."""
    tx.frames.append(f)
    root = is_root(tx, f)
    code = f.program.normal
    try:
        while True:
            ins = code[f.ip]
            f.current = f.ip
            if root:
                if tx.known.break_at == tx.root_step:
                    raise StopHere
                tx.root_step += 1
            f.ip += 1
            handler = OPS.get(ins.op)
            if handler is None:
                raise tx.break_("DD016", ins.op)
            try:
                handler(tx, f, ins)
            except MemoryError as e:
                raise tx.break_("DD034", ins.op) from e
            except NotConstant as e:
                raise tx.break_("DD005", f"{ins.op} of {e}, whose value is not known") from e
            except Raised as e:
                unwind(tx, f, e, root)
    except Return as r:
        return r.value
    except BreakError as e:
        tx.locate(e)
        raise
    finally:
        tx.frames.pop()


def is_root(tx: Tracer, f: Frame) -> bool:
    """Whether this is the frame being captured, and it runs itself: nothing it called is under way."""
    return f.parent is None and len(tx.frames) == 1


def unwind(tx: Tracer, f: Frame, e: Raised, root: bool) -> None:
    """Go to the handler of an exception, or let it leave the frame."""
    if isinstance(e.value, ExceptionValue) and e.value.traceback is None:
        e.value.traceback = TracebackValue(tx.root_step)
    ins = f.program.normal[f.current]
    raised_again = ins.op == "RERAISE" or (ins.op == "RAISE_VARARGS" and ins.arg == 0)  # with the traceback that there is
    if isinstance(e.value, ExceptionValue) and e.value.traceback is not None and not raised_again:
        e.value.traceback.passed.append((f.code, f.line))
    if f.handled and isinstance(e.value, ExceptionValue) and "__context__" not in e.value.slots and e.value is not f.handled[-1]:
        e.value.slots["__context__"] = f.handled[-1]
    for r in f.program.normal_ranges:
        if r.start <= f.current < r.end:
            del f.stack[r.depth :]
            if r.lasti:
                f.push(Const(f.current))
            f.push(e.value)
            f.ip = r.target
            if root:
                tx.step_of_handler = tx.root_step - 1
            return
    if isinstance(e.value, ExceptionGroupValue):
        e.value.like = object()
    raise e
