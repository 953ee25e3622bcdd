"""Facts about a `Program`: who follows whom, how deep the stack is, which slots are live, where a frame can be re-entered.

All indices are original ones (`Program.instrs`). Answers are computed once per program.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from dynamo.bytecode import facts
from dynamo.bytecode.decode import Instr, Program, Range, landing, truth_test

RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})
RAISES: Final = frozenset({"RAISE_VARARGS", "RERAISE"})
TERMINAL: Final = RETURNS | RAISES | {"INTERPRETER_EXIT"}
JUMPS: Final = frozenset({"JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP", "JUMP_NO_INTERRUPT"})
CALLS: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})

# Jumps that take an exact bool where TO_BOOL is an instruction of its own.
_TAKES_BOOL: Final = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"})

# One logical step of several instructions: KW_NAMES of 3.11 and 3.12 sets a register of the evaluation loop that is lost when the frame is
# left before CALL. 3.13 pushes the names and has CALL_KW.
CALL_GROUP: Final = frozenset({"KW_NAMES", "PRECALL", "CALL"})

# A call of one of these can see every variable of the frame that calls it.
FRAME_READERS: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})


# -- control flow ----------------------------------------------------------------------------------------------------------------


def flow(instrs: Sequence[Instr], index: int) -> tuple[int, ...]:
    """Instructions that can follow `index` without an exception: the next one first, then the landing of a jump."""
    instr = instrs[index]
    following = () if instr.op in TERMINAL or instr.op in JUMPS else (index + 1,)
    if instr.target is None or landing(instr) in following:
        return following
    return following + (landing(instr),)


def step_range(program: Program, index: int) -> tuple[int, int]:
    """First and last instruction of the logical step that `index` belongs to: on 3.11 KW_NAMES, PRECALL, CALL can't be parted, from 3.13
    on a truth test and the jump that it decides are one step, as the jump alone is before: each side goes on by itself, and no guard tells
    them apart."""
    instrs = program.instrs
    first = last = index
    if instrs[index].op in CALL_GROUP:
        while first > 0 and instrs[first - 1].op in CALL_GROUP and instrs[first - 1].op != "CALL":
            first -= 1
        while instrs[last].op != "CALL":
            last += 1
    elif (instrs[index].op == "TO_BOOL" or instrs[index].to_bool) and instrs[index + 1].op in _TAKES_BOOL:
        last = index + 1
    return first, last


def step_instrs(program: Program, first: int, last: int, tested: bool) -> tuple[Instr, ...]:
    """The instructions of a step. With `tested`, what is left of a comparison whose result is on the stack but not yet tested: a capture
    can hold the comparison of two tensors, but not the test of its result."""
    steps = program.instrs[first : last + 1]
    return (truth_test(steps[0]), *steps[1:]) if tested else steps


# -- stack depth -----------------------------------------------------------------------------------------------------------------

# Where the compiler's figure isn't what happens at run time: (falls through, jumps), from the argument.
_EFFECTS: Final[dict[str, Callable[[int], tuple[int, int]]]] = {
    "FOR_ITER": lambda arg: (1, -1 if facts.FOR_ITER_POPS_AT_END else 0),
    "RETURN_GENERATOR": lambda arg: (facts.RETURN_GENERATOR_EFFECT, 0),
} | ({"PRECALL": lambda arg: (facts.PRECALL_EFFECT, 0), "CALL": lambda arg: (-1 - arg, 0)} if facts.HAS_PRECALL else {})


F = TypeVar("F")


def _once(analysis: Callable[[Program], F]) -> Callable[[Program], F]:
    """The analysis made once per program, and kept with it."""

    def kept(program: Program) -> F:
        if analysis not in program.facts:
            program.facts[analysis] = analysis(program)
        found: F = program.facts[analysis]
        return found

    return kept


@lru_cache(maxsize=4096)
def _effect(op: str, arg: int) -> tuple[int, int]:
    if op in _EFFECTS:
        return _EFFECTS[op](arg)
    number = facts.OPMAP[op]
    given = arg if number in facts.WITH_ARGUMENT else None
    return dis.stack_effect(number, given, jump=False), dis.stack_effect(number, given, jump=True)


def stack_effect(instr: Instr, jump: bool) -> int:
    """Change of the stack's depth by an original instruction, when it falls through or when it jumps to its landing."""
    return _effect(instr.op, instr.arg)[jump]


def depths(instrs: Sequence[Instr], ranges: Sequence[Range]) -> list[int | None]:
    """Stack depth before each instruction, None where control can't come."""
    handlers = handler_of_each(len(instrs), ranges)
    found: list[int | None] = [None] * len(instrs)
    todo = [(0, 0)]
    while todo:
        index, depth = todo.pop()
        while found[index] is None:
            found[index] = depth
            instr, handler = instrs[index], handlers[index]
            if handler is not None and found[handler.target] is None:
                todo.append((handler.target, handler.depth + handler.lasti + 1))
            if instr.target is not None:
                todo.append((landing(instr), depth + stack_effect(instr, True)))
            if instr.op in TERMINAL or instr.op in JUMPS:
                break
            depth += stack_effect(instr, False)
            index += 1
    return found


def handler_of_each(count: int, ranges: Sequence[Range]) -> list[Range | None]:
    """The range that protects each of `count` instructions."""
    handlers: list[Range | None] = [None] * count
    for r in ranges:
        handlers[r.start : r.end] = [r] * (r.end - r.start)
    return handlers


@_once
def _stack_depths(program: Program) -> tuple[int | None, ...]:
    return tuple(depths(program.instrs, program.ranges))


def stack_depths(program: Program) -> tuple[int | None, ...]:
    """Stack depth before each instruction, None where control can't come."""
    return _stack_depths(program)


# -- liveness --------------------------------------------------------------------------------------------------------------------

READS: Final = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE", "LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF"}
    | {"LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"}
)
WRITES: Final = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"})
SLOT_OPS: Final = READS | WRITES


def bare_super(program: Program) -> frozenset[int]:
    """First instructions of the calls `super()`, which find `__class__` and the first argument in the frame itself."""
    code = program.code
    if "__class__" not in code.co_freevars or "super" not in code.co_names or not code.co_argcount:
        return frozenset()
    instrs = program.instrs
    return frozenset(
        i + 1
        for i, instr in enumerate(instrs[:-2])
        if instr.op == "LOAD_GLOBAL" and instr.argval == "super" and instr.push_null
        if instrs[i + 1].op in ("PRECALL", "CALL") and instrs[i + 1].arg == 0
    )


def _read_write(instr: Instr) -> tuple[int, int]:
    """Bit masks of the slots that an instruction reads before writing, and of those that it writes."""
    op, arg = instr.op, instr.arg
    if op in SLOT_OPS:
        return (1 << arg if op in READS else 0), (1 << arg if op in WRITES else 0)
    first, second = 1 << (arg >> 4), 1 << (arg & 15)
    if op == "LOAD_FAST_LOAD_FAST":
        return first | second, 0
    if op == "STORE_FAST_LOAD_FAST":
        return second & ~first, first
    if op == "STORE_FAST_STORE_FAST":
        return 0, first | second
    return 0, 0


@_once
def _live_slots(program: Program) -> tuple[frozenset[int], ...]:
    instrs, names = program.instrs, {slot.name: i for i, slot in enumerate(program.slots)}
    everything = (1 << program.nlocalsplus) - 1
    watched = not FRAME_READERS.isdisjoint(program.code.co_names)
    reads, writes = map(list, zip(*map(_read_write, instrs), strict=True))
    for i, instr in enumerate(instrs):
        if instr.op == "COPY_FREE_VARS":
            writes[i] = everything & -(1 << (program.nlocalsplus - instr.arg))
        elif watched and instr.op in CALLS:
            reads[i] = everything
    for i in bare_super(program):
        reads[i] |= 1 | 1 << names["__class__"]
    handlers = [None if r is None else r.target for r in handler_of_each(len(instrs), program.ranges)]
    follow = [flow(instrs, i) for i in range(len(instrs))]
    live = [0] * len(instrs)
    changed = True
    while changed:  # backwards: one sweep per nesting of loops, and one to see that nothing changes
        changed = False
        for i in range(len(instrs) - 1, -1, -1):
            out = 0
            for j in follow[i]:
                out |= live[j]
            new = reads[i] | out & ~writes[i]
            target = handlers[i]
            if target is not None:
                new |= live[target]
            if new != live[i]:
                live[i] = new
                changed = True
    shared: dict[int, frozenset[int]] = {}
    for mask in live:
        if mask not in shared:
            shared[mask] = frozenset(slot for slot in range(program.nlocalsplus) if mask >> slot & 1)
    return tuple(shared[mask] for mask in live)


def live_slots(program: Program) -> tuple[frozenset[int], ...]:
    """Slots whose value before each instruction may still be read, exception edges included. A cell lives while a use is reachable."""
    return _live_slots(program)


# -- re-entry --------------------------------------------------------------------------------------------------------------------


TAKES_RAW: Final = frozenset({"PUSH_EXC_INFO", "END_ASYNC_FOR", "CLEANUP_THROW"})


@_once
def _handling(program: Program) -> tuple[tuple[int, int] | None, ...]:
    """Before each instruction: how many exceptions the thread is handling on behalf of this frame, and whether a raw one lies on the stack
    as it does at the start of a handler; None in dead code. A range also covers instructions that can't raise while they leave an inner
    handler (COPY, POP_EXCEPT), so the least count of its instructions is that of its handler."""
    instrs = program.instrs
    handlers = handler_of_each(len(instrs), program.ranges)
    found: list[tuple[int, int] | None] = [None] * len(instrs)
    todo = [(0, 0, 0)]
    while todo:
        index, count, raw = todo.pop()
        old = found[index]
        if old is not None and old <= (count, raw):
            continue
        found[index] = count, raw
        handler, op = handlers[index], instrs[index].op
        if handler is not None:
            todo.append((handler.target, count, 1))
        after = max(0, count + (op == "PUSH_EXC_INFO") - (op == "POP_EXCEPT"))
        todo += [(following, after, 0 if op in TAKES_RAW else raw) for following in flow(instrs, index)]
    return tuple(found)


def resumable(program: Program, index: int) -> bool:
    """Whether a frame can be entered at `index` with nothing but stack and slots: not before RESUME, not while an exception is being
    handled (CPython keeps that in the thread, not in the frame), not in dead code, not in generators or class bodies."""
    return enterable(program) and index >= program.entry and _handling(program)[index] == (0, 0)


def enterable(program: Program) -> bool:
    """Whether continuations of this code can exist at all."""
    return not program.is_generator and bool(program.code.co_flags & inspect.CO_OPTIMIZED)


# -- what a step does to the shape of the state ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class After:
    """The state at one successor of a step: which instruction, which stack positions are NULL, which slots are bound."""

    index: int
    stack_shape: tuple[bool, ...]
    bound: frozenset[int]


_NULL_PAIR: Final = (False, True) if facts.NULL_AFTER_CALLABLE else (True, False)


def _shape_after(instr: Instr, shape: tuple[bool, ...], bound: frozenset[int], jump: bool) -> tuple[bool, ...]:
    op, arg, depth = instr.op, instr.arg, len(shape)
    if op == "PUSH_NULL":
        return shape + (True,)
    if op == "LOAD_GLOBAL" and instr.push_null:
        return shape + _NULL_PAIR
    if instr.method:  # native steps load the bound method, so that the shape doesn't depend on the object
        return shape[: depth + stack_effect(instr, False) - 2] + _NULL_PAIR
    if op == "LOAD_FAST_AND_CLEAR":
        return shape + (arg not in bound,)
    if op == "COPY":
        return shape + (shape[-arg],)
    if op == "SWAP":
        items = list(shape)
        items[-1], items[-arg] = items[-arg], items[-1]
        return tuple(items)
    new = depth + stack_effect(instr, jump)
    if op in CALLS:
        return shape[: new - 1] + (False,)
    return shape[:new] + (False,) * (new - depth)


def _bound_after(instr: Instr, shape: tuple[bool, ...], bound: frozenset[int]) -> frozenset[int]:
    op, arg = instr.op, instr.arg
    if op == "STORE_FAST":  # of NULL: the end of an inlined comprehension restores an unbound variable
        return bound - {arg} if shape[-1] else bound | {arg}
    if op == "STORE_FAST_LOAD_FAST":
        return bound - {arg >> 4} if shape[-1] else bound | {arg >> 4}
    if op == "STORE_FAST_STORE_FAST":
        stored = {arg >> 4: not shape[-1], arg & 15: not shape[-2]}
        return bound.difference(stored) | {slot for slot, is_bound in stored.items() if is_bound}
    if op in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
        return bound - {arg}
    return bound | {arg} if op == "MAKE_CELL" else bound


def states_after(
    program: Program, first: int, last: int, stack_shape: tuple[bool, ...], bound: frozenset[int], tested: bool = False
) -> tuple[After, ...]:
    """The state at every successor of the straight-line step first..last, when it is run by `resume.native_function`."""
    *before, step = step_instrs(program, first, last, tested)
    for instr in before:
        stack_shape, bound = _shape_after(instr, stack_shape, bound, False), _bound_after(instr, stack_shape, bound)
    return tuple(
        After(index, _shape_after(step, stack_shape, bound, _jumps(step, index, last)), _bound_after(step, stack_shape, bound))
        for index in flow(program.instrs, last)
    )


def _jumps(instr: Instr, successor: int, index: int) -> bool:
    return instr.target is not None and (successor != index + 1 or instr.op in JUMPS)
