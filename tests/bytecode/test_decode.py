"""Decoding agrees with `dis`; the normalised view says the same on every version."""

from __future__ import annotations

import dis
import inspect
import sys

import pytest

from dynamo.bytecode import facts
from dynamo.bytecode.analyse import flow, live_slots, stack_depths, stack_effect
from dynamo.bytecode.decode import RENAMED, SPLIT, decode, slots_of
from tests.bytecode.codes import sample

FILES = 25


def normal_ops(source: str) -> list[str]:
    """Normalised opcodes of the function body `source`, without its prologue."""
    scope: dict[str, object] = {}
    body = "\n".join("    " + line for line in source.splitlines())
    exec(f"def f(a, b, c):\n{body}", scope)
    program = decode(scope["f"].__code__)  # type: ignore[attr-defined]
    return [instr.op for instr in program.normal[program.normal_index[program.entry] :]]


def test_agrees_with_dis() -> None:
    for code in sample(FILES):
        program = decode(code)
        expected = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
        assert [(i.op, i.offset) for i in program.instrs] == [(i.opname, i.offset) for i in expected]
        for mine, theirs in zip(program.instrs, expected, strict=True):
            assert (mine.line, mine.end_line, mine.col, mine.end_col) == tuple(theirs.positions or ())
            if mine.op in ("LOAD_FAST", "LOAD_DEREF", "STORE_NAME", "LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "MAKE_CELL"):
                assert mine.argval == theirs.argval
            if theirs.opcode in dis.hasjrel:
                assert program.instrs[mine.target or 0].offset - theirs.argval in (0, 2, 4)  # `dis` names the first EXTENDED_ARG


def test_slots_follow_the_interpreter() -> None:
    for code in sample(FILES):
        names = [slot.name for slot in slots_of(code)]
        assert names == [code._varname_from_oparg(i) for i in range(len(names))]  # type: ignore[attr-defined]


def test_depths_agree_on_every_path() -> None:
    for code in sample(FILES):
        program = decode(code)
        found = stack_depths(program)
        for i, instr in enumerate(program.instrs):
            depth = found[i]
            if depth is None:
                continue
            assert 0 <= depth <= code.co_stacksize
            for j in flow(program.instrs, i):
                jump = instr.target is not None and (j != i + 1 or (instr.op.startswith("JUMP_") and not instr.op.endswith("POP")))
                assert found[j] == depth + stack_effect(instr, jump)
            handler = program.handler(i)
            if handler is not None:
                assert depth >= handler.depth


def test_liveness_is_consistent_with_definite_reads() -> None:
    """Nothing is live at the entry but arguments and cells, as long as the compiler proves its variables bound."""
    if facts.CHECKED_LOAD == "LOAD_FAST":
        pytest.skip("this version has no opcode for variables that may be unbound")
    for code in sample(FILES):
        program = decode(code)
        if program.is_generator or {"locals", "vars", "dir", "eval", "exec"} & set(code.co_names) or not code.co_flags & 1:
            continue
        maybe = {i.arg for i in program.instrs if i.op in ("LOAD_FAST_CHECK", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")}
        entry = live_slots(program)[program.entry]
        arguments = inspect.getargs(code)
        given = {*arguments.args, arguments.varargs, arguments.varkw}
        assert all(slot in maybe or program.slots[slot].name in given or program.slots[slot].kind != "local" for slot in entry), code


def test_normal_hides_versions() -> None:
    for code in sample(FILES):
        program = decode(code)
        normal = program.normal
        assert len(program.normal_index) == len(program.instrs) + 1
        for instr in normal:
            assert instr.op not in RENAMED
            assert instr.op not in SPLIT
            assert instr.op not in ("PRECALL", "KW_NAMES", "RETURN_CONST")
            assert instr.target is None or 0 <= instr.target < len(normal)
        for index, start in enumerate(program.normal_index[:-1]):
            assert normal[start].orig <= index  # a folded group is named by its first instruction


@pytest.mark.parametrize(
    "source, expected",
    [
        ("return a", "LOAD_FAST RETURN_VALUE"),
        ("return 1", "LOAD_CONST RETURN_VALUE"),
        ("a, b = b, a\nreturn a", "LOAD_FAST LOAD_FAST STORE_FAST STORE_FAST LOAD_FAST RETURN_VALUE"),
        ("return +a", "LOAD_FAST UNARY_POSITIVE RETURN_VALUE"),
        ("return a.b(c)", "LOAD_FAST LOAD_ATTR LOAD_FAST CALL RETURN_VALUE"),
        ("return a is b", "LOAD_FAST LOAD_FAST IS_OP RETURN_VALUE"),
        ("return max(a, b)", "LOAD_GLOBAL LOAD_FAST LOAD_FAST CALL RETURN_VALUE"),
    ],
)
def test_one_reading(source: str, expected: str) -> None:
    assert normal_ops(source) == expected.split()


def test_argvals() -> None:
    def f(a, b):
        x = a < b
        x += a.name
        for i in b:
            print(i, end="")
        return x if a >= b else None

    program = decode(f.__code__)
    by_op = {instr.op: instr for instr in reversed(program.normal)}
    assert by_op["COMPARE_OP"].argval == "<"
    assert by_op["BINARY_OP"].argval == "+="
    assert (by_op["LOAD_ATTR"].argval, by_op["LOAD_ATTR"].method) == ("name", False)
    assert (by_op["LOAD_GLOBAL"].argval, by_op["LOAD_GLOBAL"].push_null) == ("print", True)
    assert (by_op["LOAD_FAST"].argval, by_op["LOAD_FAST"].arg) == ("a", 0)
    end = by_op["FOR_ITER"].target
    assert end is not None
    assert program.normal[end].op == "LOAD_FAST"  # behind the instructions that clean up after the loop
    call = by_op.get("CALL_KW", by_op["CALL"] if "CALL" in by_op else None)
    assert call is not None
    assert call.op == "CALL_KW" or call.argval == ("end",)
    assert program.instrs[call.orig].op == ("KW_NAMES" if "KW_NAMES" in dis.opmap else "CALL_KW")
    assert [i.to_bool for i in program.instrs if i.op == "COMPARE_OP"] == [False, sys.version_info >= (3, 13)]
    assert [i.to_bool for i in program.normal if i.op == "COMPARE_OP"] == [False, False]


def test_instrumented_code_decodes_alike() -> None:
    def f(xs):
        return [x for x in xs if x]

    before = [(i.op, i.arg) for i in decode(f.__code__).instrs]
    again = f.__code__.replace(co_name="again")
    sys.settrace(lambda *_: None)
    try:
        exec(again, {}) if not again.co_argcount else type(f)(again, {})([1])
        after = [(i.op, i.arg) for i in decode(again).instrs]
    finally:
        sys.settrace(None)
    assert after == before


def test_programs_are_kept_by_identity() -> None:
    code = compile("x = 1", "a", "exec")
    equal = code.replace()
    assert decode(code) is decode(code)
    assert code == equal
    assert decode(equal) is not decode(code)


def test_report_names_every_flag() -> None:
    found = facts.report()
    assert {"HAS_PRECALL", "NULL_AFTER_CALLABLE", "FOR_ITER_LANDING"} <= found.keys()
