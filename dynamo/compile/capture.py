"""One root frame into a graph: attempts of the tracer until it either returns or has a place to break.

    inputs -> [attempt: symbolic run] -> Captured(graph, guards, final or broken state)

An attempt that meets something that can't be captured ends; the next one stops just before that instruction of the root
frame, with everything earlier captured. Each attempt starts from nothing, so no half-done instruction is ever visible.
A call that is sure to be a break needs no second attempt: the first one stops before it (`dynamo/symbolic/interp/foresight.py`).
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dynamo import _C, config
from dynamo.breaks import PROGRAM_RAISES
from dynamo.bytecode.analyse import resumable, step_range
from dynamo.bytecode.decode import Program, decode
from dynamo.guards.kinds import GuardRecord
from dynamo.source import Source, input_source
from dynamo.surroundings.modes import MODES, left, snapshot
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.attempt.tracer import Decisions, Tracer
from dynamo.symbolic.handlers import ABOVE
from dynamo.symbolic.interp.loop import StopHere, run
from dynamo.symbolic.values.errors import BreakError, CannotRebuild, Raised, RestartTrace
from dynamo.symbolic.values.kinds import CellValue, FunctionValue, Lazy, Value

MAX_ATTEMPTS = 64


@dataclass
class Captured:
    """What tracing found. `result` is the returned value, or None when the frame breaks at `frame.current` because of `reason`."""

    tx: Tracer
    frame: Frame
    result: Value | None
    reason: BreakError | None
    state: _C.GlobalState
    restore: Callable[[tuple[int, ...] | None], None]  # puts the global modes back to what they are at entry
    distinct: list[Source]
    left: list[tuple[int, Any]] = field(default_factory=list)  # modes that the trace left changed; known under `check_surroundings`
    relies: bool = False  # whether the entry holds only as long as facts do that led to the break


class Uncapturable(Exception):
    """Nothing of the frame can be captured; it runs natively."""

    def __init__(self, reason: BreakError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def capture(fn: types.FunctionType, inputs: tuple[Any, ...], *, fullgraph: bool = False, known: Decisions | None = None) -> Captured:
    """Trace `fn`'s frame for these inputs.

    Raises BreakError when `fullgraph` forbids a break, Uncapturable when there is no place to break.
    """
    known = known if known is not None else Decisions()
    for _ in range(MAX_ATTEMPTS):
        tx, outcome = Tracer(known, ABOVE), None
        tx.fullgraph = fullgraph
        try:
            outcome = attempt(tx, fn, inputs)
        finally:
            if outcome is None:
                tx.forget()
        if outcome is not None:
            return outcome
    raise Uncapturable(known.reason or BreakError("DD012", fn.__qualname__))


def attempt(tx: Tracer, fn: types.FunctionType, inputs: tuple[Any, ...]) -> Captured | None:
    """One run of the tracer; None asks for another with what `tx.known` has learned."""
    known, fullgraph = tx.known, tx.fullgraph
    restore = snapshot()  # first: it settles a mode
    state = _C.GlobalState()
    before = [mode.read() for mode in MODES] if config.check_surroundings else None
    frame = root_frame(tx, fn, inputs)
    try:
        result = run(tx, frame)
        changed = left(before) if before is not None else []
        return Captured(tx, frame, result, None, state, restore, distinct_inputs(tx), changed)
    except StopHere as stop:
        if stop.reason is not None:
            _learn(known, tx, frame, stop.reason, fullgraph)
            if known.break_at != tx.root_step - 1:
                return None  # some of the original instruction has run
            tx.root_step, frame.ip = known.break_at, frame.current
        if tx.effects.warning_scopes:
            _earlier(known, tx.effects.warning_scopes[0].born - 1)
            return None
        if not resumable(frame.program, frame.instr.orig):
            _earlier(known, tx.step_of_handler)
            return None
        if known.reason is not None and known.reason.because is not None:
            tx.guard(*known.reason.because)
        relies = _rely_on_facts(tx, frame.instr.orig)
        changed = left(before) if before is not None else []
        return Captured(tx, frame, None, known.reason, state, restore, distinct_inputs(tx), changed, relies)
    except RestartTrace:
        return None
    except BreakError as e:
        _learn(known, tx, frame, e, fullgraph)
        return None
    except Raised as e:
        # The program raises: CPython runs that instruction, so that the exception is the real one.
        reason = BreakError("DD024", e.value.describe())
        reason.span, reason.stack = frame.span(), ((frame.code.co_filename, frame.line, frame.code.co_qualname),)
        _learn(known, tx, frame, reason, False)
        return None
    finally:
        for undo in reversed(tx.effects.on_exit):
            undo()
        restore(None)


def _learn(known: Decisions, tx: Tracer, frame: Frame, reason: BreakError, fullgraph: bool) -> None:
    if fullgraph and reason.id not in PROGRAM_RAISES:
        raise reason
    step = tx.root_step - 1 - _into_group(frame)
    if isinstance(reason, CannotRebuild):
        step = reason.born - 1
    if known.break_at is not None and step >= known.break_at:
        raise Uncapturable(reason)
    known.break_at, known.reason = step, reason
    known.facts = [r for r in tx.guards.records.values() if _may_pass(r)]


def _may_pass(record: GuardRecord) -> bool:
    """Is it a fact about the program's state as first calls find it: something isn't there yet, a flag isn't set?"""
    if record.source is None:
        return False
    if record.kind in ("is", "eq"):
        return record.arg is None or type(record.arg) is bool
    return record.kind in ("no_inst_attr", "no_key", "has_key", "dict_keys", "len")


def _rely_on_facts(tx: Tracer, instruction: int) -> bool:
    """Guard what led to the break, behind the point where this attempt stops: a later call may not break at all.

    Once per instruction. Where it breaks although the facts are others, they aren't the reason.
    """
    if instruction in tx.known.settled:
        return False
    count = len(tx.guards.records)
    for fact in tx.known.facts:
        tx.guard(fact.source, fact.kind, fact.arg)
    return len(tx.guards.records) > count


def _earlier(known: Decisions, step: int) -> None:
    if known.break_at is not None and step >= known.break_at:
        raise Uncapturable(known.reason or BreakError("DD012", "exception handler"))
    known.break_at = step


def _into_group(frame: Frame) -> int:
    """How many normalised instructions of the current original one have run already and have to run again natively."""
    if frame.in_comparison:
        return 0
    normal = frame.program.normal
    i = frame.current
    first, _ = step_range(frame.program, normal[i].orig)
    n = 0
    while i > 0 and normal[i - 1].orig >= first:
        i -= 1
        n += 1
    return n


def root_frame(tx: Tracer, fn: types.FunctionType, inputs: tuple[Any, ...]) -> Frame:
    """The frame of `fn` with lazily read inputs: argument slots, then closure cells."""
    code = fn.__code__
    program: Program = decode(code)
    value = FunctionValue(fn, None)
    slots: list[Value | Lazy | None] = [None] * len(program.slots)
    nargs = len(inputs) - len(code.co_freevars)
    for i in range(nargs):
        slots[i] = Lazy(inputs[i], input_source(i, program.slots[i].name))
    value.closure = []
    for j, name in enumerate(code.co_freevars):
        cell = inputs[nargs + j]
        source = input_source(nargs + j, name)
        v = tx.wrap(cell, source)
        assert isinstance(v, CellValue)
        if isinstance(v.contents, Lazy):
            v.contents.source.label = f"L[{name!r}]"
        value.closure.append(v)
    return Frame(value, slots, None)


def distinct_inputs(tx: Tracer) -> list[Source]:
    """Sources of objects that must stay different from each other: tensors passed in, what shares a type with a changed object, and what
    the trace has compared.
    """
    made = {a.tensor.source: a.source for a in tx.arrays}  # of tensors made by each call, the arrays that they are over
    made |= dict.fromkeys(tx.numbers)
    tensors = [source for _, v in tx.builder.placeholders if (source := made.get(v.source, v.source)) is not None]
    changed = {v.cls for v in tx.effects.mutated.values()} - {types.CellType}
    others = [
        v.source
        for v in tx.identities.by_id.values()
        if v.cls in changed
        and v.source is not None
        and v.source.root.kind == "input"
        and v.source not in tensors
        and v.source.kind != "inst_dict"
    ]
    return list(dict.fromkeys([*tensors, *others, *tx.guards.apart]))
