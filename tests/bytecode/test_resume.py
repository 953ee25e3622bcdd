"""Every function of `programs` runs one step at a time through continuations, and from every cut to its end, as if it had been called."""

from __future__ import annotations

import copy
import re
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from dynamo.bytecode import facts
from dynamo.bytecode.analyse import flow, live_slots, resumable, stack_depths, states_after, step_range
from dynamo.bytecode.decode import decode
from dynamo.bytecode.origins import origin, root_slots, to_root
from dynamo.compile.resume import Exit, native_function, resume_function
from tests.bytecode.programs import CASES, Manager
from tests.bytecode.single_step import Tail, run

NULL_PAIR = (False, True) if facts.NULL_AFTER_CALLABLE else (True, False)
IDS = [f"{fn.__name__}-{i}" for i, (fn, _, _) in enumerate(CASES)]


def outcome(call: Callable[..., Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], **options: Any) -> object:
    """Result, or the exception's type, arguments, cause and the lines of this function that it passed."""
    args, kwargs = copy.deepcopy((args, kwargs))
    try:
        result = call(fn, *args, **kwargs, **options)
    except Exception as error:  # noqa: BLE001 - any exception of the program is an outcome to compare
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == fn.__code__.co_filename]
        return type(error), repr(error.args), type(error.__cause__), type(error.__context__), frames[0].f_lineno if frames else None
    return repr_of(result)


def repr_of(value: object) -> str:
    """`repr` without addresses."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


@pytest.mark.parametrize("fn, args, kwargs", CASES, ids=IDS)
def test_single_steps(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    expected = outcome(lambda f, *a, **k: f(*a, **k), fn, args, kwargs)
    assert outcome(lambda f, *a, **k: run(f, a, k)[0], fn, args, kwargs) == expected


@pytest.mark.parametrize("fn, args, kwargs", CASES, ids=IDS)
def test_every_cut(fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    expected = outcome(lambda f, *a, **k: f(*a, **k), fn, args, kwargs)
    for cut in range(1000):
        used: list[int] = []

        def stepped(f: Any, *a: Any, cut: int = cut, used: list[int] = used, **k: Any) -> object:
            result, steps = run(f, a, k, cut=cut)
            used.append(steps)
            return result

        assert outcome(stepped, fn, args, kwargs) == expected, f"cut after {cut} steps"
        if (used and used[0] < cut) or (not used and cut > 200):
            break


# -- what a continuation is ------------------------------------------------------------------------------------------------------


def index_of(fn: FunctionType, op: str, argval: object = None) -> int:
    """First original instruction with this opcode (and value) behind the prologue."""
    program = decode(fn.__code__)
    return next(i.orig for i in program.instrs[program.entry :] if i.op == op and argval in (None, i.argval))


def plain(x, y=1):
    z = max(x, y) + 1
    return z * x


def counted(n, log):
    total = 0
    for i in range(n):
        log.append(i)
        total += i
    return total


def test_resume_takes_stack_then_slots() -> None:
    index = index_of(plain, "BINARY_OP", "+")
    fn = resume_function(plain.__code__, globals(), index, (False, False), (0,))
    assert fn.__code__.co_varnames[:3] == ("___stack0", "___stack1", "x")
    assert fn(10, 5, 2) == 30
    assert fn.__closure__ is None
    assert (fn.__name__, fn.__qualname__) == ("plain", f"plain__resume_at_{index}")
    assert fn.__module__ == __name__
    assert (fn.__code__.co_filename, fn.__code__.co_firstlineno) == (__file__, plain.__code__.co_firstlineno)


def test_resume_functions_are_made_once() -> None:
    index = index_of(plain, "BINARY_OP", "+")
    one = resume_function(plain.__code__, globals(), index, (False, False), (0,))
    assert resume_function(plain.__code__, globals(), index, (False, False), (0,)) is one
    assert resume_function(plain.__code__, {}, index, (False, False), (0,)) is not one
    assert resume_function(plain.__code__, globals(), index, (False, False), (0, 1)) is not one


def test_break_at_a_call() -> None:
    """The example of the documentation: one call runs natively between two pieces of a function."""
    code, program = plain.__code__, decode(plain.__code__)
    first, last = step_range(program, index_of(plain, "CALL"))
    before = NULL_PAIR + (False, False)
    live, bound = live_slots(program), frozenset({0, 1})
    exits = {}
    for after in states_after(program, first, last, before, bound):
        slots = tuple(sorted(after.bound & live[after.index]))
        exits[after.index] = Exit(resume_function(code, globals(), after.index, after.stack_shape, slots), slots)
    native = native_function(code, globals(), first, last, before, (0,), exits, Tail)
    tail = native(max, 3, 8, 3)
    assert tail.args == (8, 3)
    assert tail.fn(*tail.args) == plain(3, 8) == 27


def test_keyword_call_is_entered_at_its_first_instruction() -> None:
    def f(x):
        return sorted(x, reverse=True)

    program = decode(f.__code__)
    last = next(i.orig for i in program.instrs if i.op in ("CALL", "CALL_KW"))
    first, same = step_range(program, last)
    assert same == last
    assert program.instrs[first].op in ("KW_NAMES", "CALL_KW")
    assert all(step_range(program, i) == (first, last) for i in range(first, last + 1))
    shape = NULL_PAIR + (False,) * ((stack_depths(program)[first] or 0) - 2)
    values = (sorted, [1, 3, 2], True) + ((("reverse",),) if program.instrs[last].op == "CALL_KW" else ())
    assert resume_function(f.__code__, globals(), last, shape, ())(*values) == [3, 2, 1]


def test_a_continuation_of_a_continuation_is_made_from_the_root() -> None:
    fn: FunctionType = counted
    code = fn.__code__
    body = index_of(counted, "BINARY_OP", "+=")
    first = resume_function(code, globals(), body, (False, False, False), (1, 2, 3))
    known = origin(first.__code__)
    assert known is not None
    assert (known.code, known.kind, known.index) == (code, "resume", body)
    inner = index_of(first, "BINARY_OP", "+=")
    assert inner != body
    assert to_root(first.__code__, inner) == (code, body)
    slots = tuple(slot for slot in range(len(decode(first.__code__).slots)) if known.slot_map[slot] in (1, 2, 3))
    assert root_slots(first.__code__, code, slots) == (1, 2, 3)
    assert resume_function(first.__code__, globals(), inner, (False, False, False), slots) is first
    log: list[int] = []
    assert first(iter([7, 8]), 10, 5, log, 0, 5) == 30
    assert log == [7, 8]
    assert origin(code) is None
    assert to_root(code, 3) == (code, 3)


def test_stack_parameters_are_given_up() -> None:
    """A resumed loop must not keep its iterator or an operand alive in a parameter."""
    index = index_of(counted, "BINARY_OP", "+=")
    fn = resume_function(counted.__code__, globals(), index, (False, False, False), (1, 2))
    program = decode(fn.__code__)
    start = next(i.target for i in program.instrs if i.target is not None)
    assert not {0, 1, 2} & live_slots(program)[start or 0]
    cleared = {i.arg for i in program.instrs[: start or 0] if i.op in ("LOAD_FAST_AND_CLEAR", "DELETE_FAST")}
    assert cleared >= {0, 1, 2}


def test_cells_are_passed_as_cells() -> None:
    def f(x):
        def get():
            return x

        x = x + 1
        return get

    program = decode(f.__code__)
    index = next(i.orig for i in program.instrs if i.op == "STORE_DEREF")
    cell = (lambda x: lambda: x)(0).__closure__[0]  # type: ignore[index]
    names = [slot.name for slot in program.slots]
    bound = {"x": cell, "get": lambda: cell.cell_contents}
    slots = tuple(i for i, name in enumerate(names) if name in bound)
    get = resume_function(f.__code__, globals(), index, (False,), slots)(41, *(bound[names[i]] for i in slots))
    assert get() == cell.cell_contents == 41


def test_handler_runs_to_the_end_inside_a_native_step() -> None:
    def f(xs, log):
        for x in xs:
            try:
                log.append(1 // x)
            except ZeroDivisionError:
                late = "seen"
                log.append(late)
        return log

    index = index_of(f, "BINARY_OP", "//")
    exits = {index + 1: Exit(print, (0, 1, 2))}
    log: list[object] = []
    native = native_function(f.__code__, globals(), index, index, (False, *NULL_PAIR, False, False), (0, 1, 2), exits, Tail)
    assert native(iter([2, 1]), log.append, 1, 0, [], log, 0) is log  # raises; the loop then goes on in the original code
    assert log == ["seen", 0, 1]
    assert isinstance(native(iter([2, 1]), log.append, 1, 1, [], log, 1), Tail)


def generator():
    yield 1


async def coroutine():
    await coroutine()


def handles(x):
    try:
        x()
    except ValueError as error:
        x = error.args
    return x


@pytest.mark.parametrize("fn", [generator, coroutine])
def test_generators_are_refused(fn: FunctionType) -> None:
    with pytest.raises(ValueError, match="can't be entered in its middle"):
        resume_function(fn.__code__, globals(), decode(fn.__code__).entry + 1, (), ())


def test_what_cannot_be_entered_is_refused() -> None:
    program = decode(handles.__code__)
    inside = next(i.orig for i in program.instrs if i.op == "LOAD_ATTR")
    assert not resumable(program, inside)
    assert not resumable(program, 0)
    assert resumable(program, index_of(handles, "CALL"))
    assert resumable(program, next(i.orig for i in reversed(program.instrs) if i.op == "RETURN_VALUE"))
    with pytest.raises(ValueError, match=r"handles can't be entered at instruction \d+"):
        resume_function(handles.__code__, globals(), inside, (False, False), (0,))
    with pytest.raises(ValueError, match="the stack of handles is 0 deep"):
        resume_function(handles.__code__, globals(), program.entry, (False,), (0,))
    with pytest.raises(ValueError, match="no exit for the successors"):
        native_function(handles.__code__, globals(), program.entry, program.entry, (), (0,), {}, Tail)


def test_every_successor_of_a_normal_step_is_normal() -> None:
    for fn, _, _ in CASES:
        program = decode(fn.__code__)
        for i in range(len(program.instrs)):
            if resumable(program, i):
                assert all(resumable(program, j) for j in flow(program.instrs, i)), (fn, i)


def test_an_unbound_slot_at_an_exit_is_an_error_not_a_crash() -> None:
    program = decode(counted.__code__)
    entry = program.entry
    state = states_after(program, entry, entry, (), frozenset({0, 1}))[0]
    native = native_function(counted.__code__, globals(), entry, entry, (), (0, 1), {state.index: Exit(print, (2,))}, Tail)
    with pytest.raises(UnboundLocalError):
        native(1, [])


def test_locals_shows_only_the_variables() -> None:
    def f(a):
        b = a + 1

        def get():
            return a

        return locals(), get

    expected = set(f(1)[0])
    index = index_of(f, "BINARY_OP", "+")
    cell = (lambda a: lambda: a)(1).__closure__[0]  # type: ignore[index]
    names = [slot.name for slot in decode(f.__code__).slots]
    seen, _ = resume_function(f.__code__, globals(), index, (False, False), (names.index("a"),))(1, 1, cell)
    assert set(seen) == expected
    assert (seen["a"], seen["b"]) == (1, 2)


def test_with_block_is_left_by_a_resumed_frame() -> None:
    log: list[object] = []

    def f(x):
        with Manager(log, "m"):
            y = x + 1
            raise ValueError(y)

    index = index_of(f, "BINARY_OP", "+")
    manager = Manager(log, "m")
    free = f.__closure__[0]  # type: ignore[index]
    names = [slot.name for slot in decode(f.__code__).slots]
    fn = resume_function(f.__code__, globals(), index, (False, False, False), (names.index("x"), names.index("log")))
    with pytest.raises(ValueError, match="3"):
        fn(manager.__exit__, 2, 1, 2, free)
    assert log == [("exit", "m", "ValueError")]
