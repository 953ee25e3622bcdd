"""Continuations: functions that enter a code object in its middle.

A *state* is what a frame needs to go on: the items of its stack from bottom to top (NULLs left out), then some local slots. A function
made here takes one state as positional arguments. Its code is a prologue that pushes the stack and jumps, then the original instructions
with their exception table, so `try` and `with` blocks that are open at the entry keep working. Two kinds:

- `resume_function` runs the original code from one instruction to its end;
- `native_function` runs one step (`step_range`) where it stands in the original, and leaves at each successor by
  `return tail(exit function, state)`. If the step raises inside a `try` or `with`, the original handler runs here too, and everything
  behind it to the end of the function.

Layout: stack items are parameters first, then the given slots, then all other slots of the original. So no variable has to be moved, and
each stack parameter is emptied as it is pushed. Slots that held cells hold the *passed cell objects*; nothing here has a closure.

A continuation of a continuation is made from the original (`to_root`), so prologues don't pile up.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from dynamo import _C
from dynamo.bytecode import facts
from dynamo.bytecode.analyse import (
    JUMPS,
    SLOT_OPS,
    After,
    bare_super,
    enterable,
    flow,
    resumable,
    stack_depths,
    states_after,
    step_instrs,
    step_range,
)
from dynamo.bytecode.assemble import assemble, expand
from dynamo.bytecode.decode import SPLIT, Instr, Program, Range, decode, halves
from dynamo.bytecode.origins import Origin, Shape, add_origin, is_free, origin, root_slots, to_root
from dynamo.trace.names import continued


class Exit(NamedTuple):
    """Where a native step goes at one successor: what to tail-call, which slots to pass after the stack, and the stack's shape there
    (None: as `states_after` derives it)."""

    fn: Any
    slots: tuple[int, ...]
    stack_shape: Shape | None = None


_resume_functions: weakref.WeakValueDictionary[tuple[int, int, int, Shape, tuple[int, ...]], FunctionType] = weakref.WeakValueDictionary()


def resume_function(code: CodeType, globals: dict[str, Any], index: int, stack_shape: Shape, slots: Sequence[int]) -> FunctionType:
    """The rest of `code` from instruction `index` on, as a function of the state (stack, then `slots` in the order given)."""
    given = tuple(slots)
    index, _ = step_range(decode(code), index)
    root, index = to_root(code, index)
    given = root_slots(code, root, given)
    key = (id(root), id(globals), index, stack_shape, given)
    fn = _resume_functions.get(key)
    if fn is None:
        program = decode(root)
        _check(program, index, stack_shape)
        made = _Frame(program, stack_shape, given)
        jump = made.enter()
        made.append_body()
        made.instrs[jump] = made.instrs[jump]._replace(target=made.body_index[index])
        fn = _resume_functions[key] = made.function(globals, "resume", index)
    return fn


def native_function(
    code: CodeType,
    globals: dict[str, Any],
    index: int,
    last: int,
    stack_shape: Shape,
    slots: Sequence[int],
    exits: Mapping[int, Exit],
    tail: type,
    tested: bool = False,
) -> FunctionType:
    """The step `index`..`last` of `code` as a function of the state; at each successor it returns `tail(exit.fn, state)`. A step that
    returns returns. `exits` has a row per successor (`states_after` lists them). `tested`: see `step_instrs`."""
    program = decode(code)
    given = tuple(slots)
    states = {state.index: state for state in states_after(program, index, last, stack_shape, frozenset(given), tested)}
    if states.keys() - exits.keys():
        raise ValueError(f"no exit for the successors {sorted(states.keys() - exits.keys())} of step {index}..{last}")
    _check(program, index, stack_shape + (False,) if tested else stack_shape)  # a comparison has taken two and left one
    for state in states.values():
        shape = exits[state.index].stack_shape
        if shape is not None and len(shape) != len(state.stack_shape):
            raise ValueError(f"the stack is {len(state.stack_shape)} deep at instruction {state.index}, not {len(shape)}")
    made = _Frame(program, stack_shape, given)
    jump = made.enter()
    made.append_step(index, step_instrs(program, index, last, tested), states, exits, tail, jump)
    return made.function(globals, "native", index)


def raising_function(fn: FunctionType, error: BaseException) -> FunctionType:
    """Takes what a resume function takes and raises where that goes on: `try` and `with` blocks that are open there end as they do for an
    error of the program."""
    known = origin(fn.__code__)
    assert known is not None
    made = _Frame(decode(known.code), known.stack_shape, known.slots)
    jump = made.enter()
    made.instrs[jump] = made.instrs[jump]._replace(target=len(made.instrs))
    made.append_raise(known.index, error)
    return made.function(fn.__globals__, "native", known.index)


def _check(program: Program, index: int, shape: Shape) -> None:
    name = program.code.co_qualname
    if not enterable(program):
        raise ValueError(f"{name} can't be entered in its middle: it is a generator, a coroutine, a class body or a module")
    if not resumable(program, index):
        raise ValueError(f"{name} can't be entered at instruction {index}: it lies in a prologue, in dead code or in an exception handler")
    depth = stack_depths(program)[index]
    if depth != len(shape):
        raise ValueError(f"the stack of {name} is {depth} deep at instruction {index}, not {len(shape)}")


# -- building --------------------------------------------------------------------------------------------------------------------

_CALL: Final = ("PRECALL", "CALL") if facts.HAS_PRECALL else ("CALL",)


class _Frame:
    """A continuation under construction: its slots, and its instructions so far."""

    def __init__(self, program: Program, shape: Shape, passed: tuple[int, ...]) -> None:
        code = program.code
        self.program, self.shape, self.passed = program, shape, passed
        self.nstack = len(shape) - sum(shape)
        order = passed + tuple(slot for slot in range(program.nlocalsplus) if slot not in passed)
        self.slot_of = {slot: self.nstack + i for i, slot in enumerate(order)}
        self.names = [f"___stack{i}" for i in range(self.nstack)]
        for slot in order:
            self.names.append(_unique(program.slots[slot].name, self.names))
        self.cells = [slot for slot in order if program.slots[slot].kind != "local"]
        self.slot_map: list[int | None] = [None] * self.nstack + list(order)
        self.names_of_cells = tuple(self.names[self.slot_of[slot]] for slot in self.cells)
        self.consts = list(code.co_consts)
        self.instrs: list[Instr] = []
        self.ranges: list[Range] = []
        self.indices: list[int | None] = []
        self.body_index: list[int] = []
        self.supers = bare_super(program)

    def emit(self, op: str, arg: int = 0, target: int | None = None, like: Instr | None = None) -> int:
        """Append an instruction that has no counterpart in the original; it stands on the line of `like`, if any."""
        line, end_line, col, end_col = (like.line, like.end_line, like.col, like.end_col) if like else (None,) * 4
        self.instrs.append(Instr(op, arg, None, target, 0, line, end_line, col, end_col, 0))
        self.indices.append(None)
        return len(self.instrs) - 1

    def enter(self) -> int:
        """The prologue; returns the index of its last jump, still without a target. The MAKE_CELLs never run: `locals()` looks whether a
        MAKE_CELL stands before the current instruction to tell a variable's cell from a variable whose value is a cell. They stand before
        RESUME because that is where opcode tracing of 3.12 leaves them alone."""
        if self.cells:
            self.emit("JUMP", target=1 + len(self.cells))
            for slot in self.cells:
                self.emit("MAKE_CELL", self.slot_of[slot])
        first = self.program.code.co_firstlineno
        start = self.emit("RESUME")
        self.instrs[start] = self.instrs[start]._replace(line=first, end_line=first, col=0, end_col=0)
        item = 0
        for is_null in self.shape:
            if is_null:
                self.emit("PUSH_NULL")
                continue
            if facts.COMPREHENSIONS_INLINED:
                self.emit("LOAD_FAST_AND_CLEAR", item)
            else:
                self.emit("LOAD_FAST", item)
                self.emit("DELETE_FAST", item)
            item += 1
        return self.emit("JUMP", target=0)

    def append_body(self) -> None:
        """All instructions of the original behind its RESUME, in the new slots, with its exception ranges."""
        program, base = self.program, len(self.instrs)
        new, ranges, index = expand(program.instrs, program.ranges, lambda i, instr: () if i < program.entry else self.moved(i, instr))
        self.instrs += [instr if instr.target is None else instr.moved(instr.arg, instr.target + base) for instr in new]
        self.ranges += [Range(r.start + base, r.end + base, r.target + base, r.depth, r.lasti) for r in ranges]
        self.body_index = [i + base for i in index]
        self.indices += [None] * len(new)
        for i in range(program.entry, len(program.instrs)):
            self.indices[self.body_index[i]] = i

    def moved(self, index: int, instr: Instr) -> tuple[Instr, ...]:
        """An original instruction in the new slots. `super()` gets its two arguments: the frame no longer has them where it looks."""
        op = instr.op
        if op in SLOT_OPS:
            return (instr.moved(self.slot_of[instr.arg], None),)
        if op in SPLIT:
            first, second = self.slot_of[instr.arg >> 4], self.slot_of[instr.arg & 15]
            if first < facts.SUPER_LIMIT and second < facts.SUPER_LIMIT:
                return (instr.moved(first << 4 | second, None),)
            one, two = halves(instr)
            return one._replace(arg=first), two._replace(arg=second)
        if op == "LOAD_SUPER_ATTR":
            return (instr._replace(arg=instr.arg | facts.SUPER_TWO_ARGUMENTS),)
        if index in self.supers:
            return self._super_arguments(instr) + (instr._replace(arg=2),)
        if index - 1 in self.supers and op == "CALL" and facts.HAS_PRECALL:
            return (instr._replace(arg=2),)
        return (instr,)

    def _super_arguments(self, instr: Instr) -> tuple[Instr, ...]:
        slots = self.program.slots
        cls = next(i for i, slot in enumerate(slots) if slot.kind == "free" and slot.name == "__class__")
        first = "LOAD_FAST" if slots[0].kind == "local" else "LOAD_DEREF"
        return instr._replace(op="LOAD_DEREF", arg=self.slot_of[cls]), instr._replace(op=first, arg=self.slot_of[0])

    def append_step(
        self, first: int, steps: Sequence[Instr], states: dict[int, After], exits: Mapping[int, Exit], tail: type, jump: int
    ) -> None:
        """A copy of the step whose successors are exits, outside every range; the original follows only if the step has a handler there."""
        instrs = self.program.instrs
        ranges = []
        self.instrs[jump] = self.instrs[jump]._replace(target=len(self.instrs))
        jumps = None
        for i, instr in enumerate(steps, first):
            start = len(self.instrs)
            handler = self.program.handler(i)
            if handler is not None and facts.UNWINDS_FROM_PREVIOUS_UNIT:
                self.instrs.append(instr._replace(op="NOP", arg=0, target=None))
            for part in _static(instr):
                reads_free = part.op in ("LOAD_DEREF", "DELETE_DEREF") and is_free(self.program, part.arg)
                if reads_free:
                    self.read_free(part)
                if not reads_free or part.op == "DELETE_DEREF":
                    self.instrs += self.moved(i, part)
            jumps = len(self.instrs) - 1
            self.indices += [None] * (len(self.instrs) - start)
            self.indices[start] = i
            if handler is not None:
                ranges.append(handler._replace(start=start, end=len(self.instrs)))
        step, last = steps[-1], first + len(steps) - 1
        landing = [index for index in flow(instrs, last) if index != last + 1 or step.op in JUMPS]
        if last + 1 in states and step.op not in JUMPS:
            if step.target is not None and not landing:  # both ways lead to the next instruction
                landing = [last + 1]
            self.exit(states[last + 1], exits[last + 1], tail, step)
        for index in landing:
            assert jumps is not None
            self.instrs[jumps] = self.instrs[jumps]._replace(target=len(self.instrs))
            for op in facts.FOR_ITER_LANDING if step.op == "FOR_ITER" else ():
                self.emit(op, like=step)
            self.exit(states[index], exits[index], tail, step)
        if ranges:
            self.append_body()
            self.ranges = [r._replace(target=self.body_index[r.target]) for r in ranges] + self.ranges

    def append_raise(self, index: int, error: BaseException) -> None:
        """The code has the error until it is raised: frames in its traceback have the code."""
        start, like = len(self.instrs), self.program.instrs[index]
        self.load_function([error].pop, like)
        for op in _CALL:
            self.emit(op, 0, like=like)
        self.emit("RAISE_VARARGS", 1, like=like)
        end, handler = len(self.instrs), self._open_at(index)
        self.append_body()
        if handler is not None:
            self.ranges = [handler._replace(start=start, end=end, target=self.body_index[handler.target]), *self.ranges]

    def _open_at(self, index: int) -> Range | None:
        """The innermost block whose stack is still there: `return f()` calls the `__exit__` of a `with` from outside its range."""
        program = self.program
        handler, before = program.handler(index), program.handler(index - 1)
        if before is None or (handler is not None and handler.depth >= before.depth) or before.depth > len(self.shape):
            return handler
        return before if program.instrs[before.target + 1].op == "WITH_EXCEPT_START" else handler

    def read_free(self, like: Instr) -> None:
        """`LOAD_DEREF` of a free variable, whose error is another than that of a cell: the code here has only cells."""
        told = len(self.indices)
        self.load_function(_C.free_variable, like)
        self.emit(facts.CHECKED_LOAD, self.slot_of[like.arg], like=like)
        self.emit("LOAD_CONST", self.const(self.program.slots[like.arg].name), like=like)
        for op in _CALL:
            self.emit(op, 2, like=like)
        if like.op == "DELETE_DEREF":
            self.emit("POP_TOP", like=like)
        del self.indices[told:]  # the caller says where these are from

    def exit(self, state: After, leave: Exit, tail: type, like: Instr) -> None:
        """`return tail(leave.fn, (stack..., slots...))`. STORE_FAST takes NULLs too, so it is what unloads the stack."""
        shape = state.stack_shape if leave.stack_shape is None else leave.stack_shape
        temporary = len(self.names)
        self.names += [_unique(f"___out{i}", self.names) for i in range(len(shape))]
        self.slot_map += [None] * len(shape)
        for i in reversed(range(len(shape))):
            self.emit("STORE_FAST", temporary + i, like=like)
        self.load_function(tail, like)
        self.emit("LOAD_CONST", self.const(leave.fn), like=like)
        values = [temporary + i for i, is_null in enumerate(shape) if not is_null]
        values += [self.slot_of[slot] for slot in leave.slots]
        for slot in values:
            self.emit(facts.CHECKED_LOAD, slot, like=like)
        self.emit("BUILD_TUPLE", len(values), like=like)
        for op in _CALL:
            self.emit(op, 2, like=like)
        self.emit("RETURN_VALUE", like=like)

    def load_function(self, fn: object, like: Instr) -> None:
        null = self.emit("PUSH_NULL", like=like)
        self.emit("LOAD_CONST", self.const(fn), like=like)
        if facts.NULL_AFTER_CALLABLE:
            self.instrs[null], self.instrs[null + 1] = self.instrs[null + 1], self.instrs[null]

    def const(self, value: object) -> int:
        self.consts.append(value)
        return len(self.consts) - 1

    def function(self, globals: dict[str, Any], kind: str, index: int) -> FunctionType:
        code = self.program.code
        made = assemble(
            self.instrs,
            self.ranges,
            code,
            co_argcount=self.nstack + len(self.passed),
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_NESTED),
            co_varnames=tuple(self.names),
            co_nlocals=len(self.names),
            co_cellvars=self.names_of_cells,
            co_freevars=(),
            co_consts=tuple(self.consts),
            # Tracebacks, logs and whoever else looks at frames see the name of the program's own function; that of a native step is whole.
            co_qualname=code.co_qualname if kind == "native" else continued(code.co_qualname, index),
        )
        add_origin(made, Origin(code, kind, index, self.shape, self.passed, tuple(self.indices), tuple(self.slot_map)))
        return FunctionType(made, globals)


def _unique(name: str, taken: Sequence[str]) -> str:
    """An inlined comprehension can leave a local and a free variable of one name."""
    while name in taken:
        name += "_"
    return name


def _static(instr: Instr) -> tuple[Instr, ...]:
    """The instruction without forms that leave a NULL or a value depending on the object: a method load becomes a load and a NULL."""
    if not instr.method:
        return (instr,)
    null = (instr._replace(op="PUSH_NULL", arg=0), *(() if facts.NULL_AFTER_CALLABLE else (instr._replace(op="SWAP", arg=2),)))
    if instr.op == "LOAD_METHOD":
        return (instr._replace(op="LOAD_ATTR"), *null)
    return (instr._replace(arg=instr.arg & ~1), *null)
