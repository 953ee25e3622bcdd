"""One interpreted frame: slots, stack, instruction pointer, exception table.

`Frame.run` is the interpreter loop; what each opcode does is a row of `opcodes.OPS`. Generators are frames that stop at
YIELD_VALUE and are run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo.bytecode.decode import Instr, Program, decode
from dynamo.symbolic.errors import BreakError, Raised
from dynamo.symbolic.values import ExceptionGroupValue, ExceptionValue, Lazy, Value

if TYPE_CHECKING:
    from dynamo.symbolic.tracer import Tracer
    from dynamo.symbolic.values import DictValue, FunctionValue

MAX_INLINE_DEPTH = 200


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


class Frame:
    """Interpreter state of one code object. `slots` follows CPython's unified localsplus order."""

    def __init__(self, tx: Tracer, fn: FunctionValue, slots: list[Value | Lazy | None], parent: Frame | None) -> None:
        self.tx = tx
        self.fn = fn
        self.code = fn.code
        self.globals: dict[str, Any] = fn.globals
        self.program: Program = decode(fn.code)
        self.slots = slots
        self.parent = parent
        self.stack: list[Value] = []
        self.ip = 0
        self.current = 0  # index of the instruction being executed
        self.kw_names: tuple[str, ...] = ()
        self.handled: list[Value] = []  # exceptions being handled, innermost last (PUSH_EXC_INFO .. POP_EXCEPT)
        self.internal = is_internal(fn.code.co_filename)
        self.entered: list[tuple[Value, int]] = []
        self.class_locals: dict[str, Value] | None = None
        self.locals: DictValue | None = None  # what locals() gave last

    # ---- position -----------------------------------------------------------------------------------------

    @property
    def instr(self) -> Instr:
        return self.program.normal[self.current]

    @property
    def in_comparison(self) -> bool:
        """Whether the current instruction is the second half of a COMPARE_OP that also tests its result."""
        ins = self.instr
        return ins.op == "TO_BOOL" and self.program.instrs[ins.orig].to_bool

    @property
    def line(self) -> int:
        ins = self.instr
        return ins.line if ins.line is not None else self.code.co_firstlineno

    def span(self) -> tuple[str, int, int, int, int]:
        ins = self.instr
        line = self.line
        return (self.code.co_filename, line, ins.col or 0, ins.end_line or line, ins.end_col or 0)

    # ---- stack --------------------------------------------------------------------------------------------

    def push(self, v: Value) -> None:
        self.stack.append(v)

    def pop(self) -> Value:
        return self.stack.pop()

    def popn(self, n: int) -> list[Value]:
        if n == 0:
            return []
        out = self.stack[-n:]
        del self.stack[-n:]
        return out

    # ---- running ------------------------------------------------------------------------------------------

    def run(self) -> Value:
        """Execute until the frame returns. Yield, Raised, BreakError and StopHere pass through."""
        from dynamo.symbolic.opcodes import OPS

        tx = self.tx
        tx.frames.append(self)
        is_root = self.is_root
        code = self.program.normal
        try:
            while True:
                ins = code[self.ip]
                self.current = self.ip
                if is_root:
                    if tx.known.break_at == tx.root_step:
                        raise StopHere
                    tx.root_step += 1
                self.ip += 1
                handler = OPS.get(ins.op)
                if handler is None:
                    raise tx.break_("DD016", ins.op)
                try:
                    handler(tx, self, ins)
                except Raised as e:
                    self.unwind(e, is_root)
        except Return as r:
            return r.value
        except BreakError as e:
            tx.locate(e)
            raise
        finally:
            tx.frames.pop()

    @property
    def is_root(self) -> bool:
        """Whether this is the frame being captured, and it runs itself: nothing it called is under way."""
        return self.parent is None and len(self.tx.frames) == 1

    def unwind(self, e: Raised, is_root: bool) -> None:
        """Go to the handler of an exception, or let it leave the frame."""
        if self.handled and isinstance(e.value, ExceptionValue) and "__context__" not in e.value.slots and e.value is not self.handled[-1]:
            e.value.slots["__context__"] = self.handled[-1]
        for r in self.program.normal_ranges:
            if r.start <= self.current < r.end:
                del self.stack[r.depth :]
                if r.lasti:
                    from dynamo.symbolic.values import Const

                    self.push(Const(self.current))
                self.push(e.value)
                self.ip = r.target
                if is_root:
                    self.tx.step_of_handler = self.tx.root_step - 1
                return
        if isinstance(e.value, ExceptionGroupValue):
            e.value.traceback = object()
        raise e


def is_internal(filename: str) -> bool:
    """Files whose lines are not the user's: ours (polyfills) and torch's."""
    return filename.startswith(_INTERNAL)


def _internal_roots() -> tuple[str, ...]:
    import os

    import torch

    return (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, os.path.dirname(torch.__file__) + os.sep)


_INTERNAL = _internal_roots()
