"""Run a function through its continuations: one native step at a time, or natively up to a cut and resumed there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from dynamo.bytecode.analyse import After, live_slots, states_after, step_range
from dynamo.bytecode.decode import decode
from dynamo.compile.resume import Exit, native_function, resume_function


class Tail(NamedTuple):
    fn: Callable[..., Any]
    args: tuple[Any, ...]


class Jump(NamedTuple):
    """Asks the driver to go on at an instruction."""

    index: int
    shape: tuple[bool, ...]
    bound: frozenset[int]
    state: tuple[Any, ...]


def initial(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
    """Bound slots at the entry, cells made."""
    program = decode(fn.__code__)
    bound = inspect.signature(fn).bind(*args, **kwargs)
    bound.apply_defaults()
    values = {}
    made = {instr.arg for instr in program.instrs[: program.entry] if instr.op == "MAKE_CELL"}
    free = iter(fn.__closure__ or ())
    for i, slot in enumerate(program.slots):
        if slot.kind == "free":
            values[i] = next(free)
        elif slot.name in bound.arguments:
            value = bound.arguments[slot.name]
            values[i] = CellType(value) if slot.kind == "cell" else value
        elif i in made:
            values[i] = CellType()
    return values


def run(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], cut: int | None = None) -> tuple[Any, int]:
    """Result of `fn(*args, **kwargs)` and the number of steps, run step by step; from step `cut` on by one resume function."""
    program = decode(fn.__code__)
    live = live_slots(program)
    start = initial(fn, args, kwargs)
    slots = tuple(sorted(start.keys() & live[program.entry]))
    at = Jump(program.entry, (), frozenset(start), tuple(start[slot] for slot in slots))
    steps = 0
    while True:
        bound = at.bound & live[at.index]
        slots = tuple(sorted(bound))
        if steps == cut:
            return resume_function(fn.__code__, fn.__globals__, at.index, at.shape, slots)(*at.state), steps
        result = FunctionType(_step(fn.__code__, at.index, at.shape, bound), fn.__globals__)(*at.state)
        steps += 1
        if not isinstance(result, Tail):
            return result, steps
        at = result.fn(*result.args)


def _jump(state: After, *values: Any) -> Jump:
    return Jump(state.index, state.stack_shape, state.bound, values)


@cache
def _step(code: CodeType, index: int, shape: tuple[bool, ...], bound: frozenset[int]) -> CodeType:
    program = decode(code)
    live = live_slots(program)
    first, last = step_range(program, index)
    assert first == index
    exits = {}
    for state in states_after(program, first, last, shape, bound):
        exits[state.index] = Exit(partial(_jump, state), tuple(sorted(state.bound & live[state.index])))
    return native_function(code, {}, first, last, shape, tuple(sorted(bound)), exits, Tail).__code__
