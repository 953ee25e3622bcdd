"""The state of one interpreted frame: slots, stack, instruction pointer, handled exceptions. `loop.py` runs it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from dynamo.bytecode.decode import Instr, Program, decode
from dynamo.symbolic.values.kinds import Lazy, Value

if TYPE_CHECKING:
    from dynamo.symbolic.values.kinds import DictValue, FunctionValue


class Frame:
    """Interpreter state of one code object. `slots` follows CPython's unified localsplus order."""

    def __init__(self, fn: FunctionValue, slots: list[Value | Lazy | None], parent: Frame | None) -> None:
        self.fn = fn
        self.code = fn.code
        self.globals: dict[str, Any] = fn.globals
        self.program: Program = decode(fn.code)
        self.slots = slots
        self.parent = parent
        self.stack: list[Value] = []
        self.ip = 0
        self.current = 0  # index of the instruction being executed
        self.calling: Value | None = None  # callee of the latest CALL
        self.handled: list[Value] = []  # exceptions being handled, innermost last (PUSH_EXC_INFO .. POP_EXCEPT)
        self.internal = is_internal(fn.code.co_filename)
        self.entered: list[tuple[Value, int]] = []
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


def is_internal(filename: str) -> bool:
    """Files whose lines are not the user's: ours (polyfills) and torch's."""
    return filename.startswith(_INTERNAL)


# Where the files of dynamo and of torch are.
_INTERNAL = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).absolute().parents[2], Path(torch.__file__).absolute().parent))
