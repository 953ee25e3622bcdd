"""`assemble(decode(code))` is `code`; edits keep jumps, ranges and positions right."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType

import pytest

from dynamo.bytecode.assemble import assemble, expand
from dynamo.bytecode.decode import Instr, decode
from tests.bytecode.codes import sample

NOP = Instr("NOP", 0, None, None, 0, 1, 1, 0, 0, 0)


def meaning(code: CodeType) -> list[tuple[object, ...]]:
    """Instructions without their place in the bytes; the type keeps 0, 0.0 and False apart."""
    return [
        (i.op, i.arg if i.target is None else i.target, type(i.argval), i.line, i.end_line, i.col, i.end_col) for i in decode(code).instrs
    ]


def test_round_trip() -> None:
    longer = []
    for code in sample(40, seed=1):
        program = decode(code)
        again = assemble(program.instrs, program.ranges, code)
        if again.co_code == code.co_code:
            assert list(again.co_positions()) == list(code.co_positions())
            assert again.co_exceptiontable == code.co_exceptiontable
        else:
            longer.append(len(code.co_code) - len(again.co_code))
        assert meaning(again) == meaning(code)
        assert decode(again).ranges == program.ranges
    # A jump that just fits without EXTENDED_ARG is also consistent with one; the compiler of 3.13 sometimes settles on that.
    assert len(longer) <= 5
    assert all(difference > 0 for difference in longer)


def test_stack_size_is_the_compilers_but_for_dead_code() -> None:
    """A smaller figure than needed would crash; the compiler's is larger only where it counts code that can't be reached."""
    smaller = [
        code for code in sample(40, seed=1) if assemble(decode(code).instrs, decode(code).ranges, code).co_stacksize < code.co_stacksize
    ]
    assert len(smaller) <= len(sample(40, seed=1)) // 500, smaller


def padded(fn: FunctionType, count: int) -> FunctionType:
    """`fn` with `count` NOPs before every instruction behind its RESUME, so that jumps and ranges grow."""
    program = decode(fn.__code__)
    keep = {j for i in program.instrs if i.op == "FOR_ITER" and i.target is not None for j in (i.target, i.target + 1)}
    new, ranges, _ = expand(
        program.instrs,
        program.ranges,
        lambda i, instr: None if i < program.entry or i in keep else (NOP,) * count + (instr,),
    )
    made = assemble(new, ranges, fn.__code__)
    return FunctionType(made, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


@pytest.mark.parametrize("count", [1, 10, 300])
def test_long_jumps(count: int) -> None:
    def f(xs):
        out = []
        for x in xs:
            try:
                if (x > 2 and x != 4) or x is None:
                    raise ValueError(x)
                out.append([i for i in range(x)])
            except ValueError as error:
                out.append(error.args)
                continue
            finally:
                out.append("f")
        while out and out[-1] == "f":
            out.pop()
        return out

    expected = f([1, 2, 3, 4, 5])
    made = padded(f, count)
    assert made([1, 2, 3, 4, 5]) == expected
    assert any(i.opname == "EXTENDED_ARG" for i in dis.get_instructions(made)) or count < 300


def test_lines_survive_an_edit() -> None:
    def f(x):
        y = x + 1
        y = y - 1
        return y / 0

    original = [(i.op, i.line, i.end_line, i.col, i.end_col) for i in decode(f.__code__).instrs]
    made = padded(f, 40)
    assert [(i.op, i.line, i.end_line, i.col, i.end_col) for i in decode(made.__code__).instrs if i.op != "NOP"] == original
    with pytest.raises(ZeroDivisionError) as caught:
        made(1)
    assert caught.traceback[-1].lineno == f.__code__.co_firstlineno + 3 - 1  # counted from 0


def test_backward_condition_is_refused_where_it_does_not_exist() -> None:
    def f(x):
        return 1 if x else 2

    program = decode(f.__code__)
    back = [instr.moved(instr.arg, 0) if instr.target is not None else instr for instr in program.instrs]
    if any(instr.op.startswith("POP_JUMP_FORWARD") for instr in back):
        assert "POP_JUMP_BACKWARD_IF_FALSE" in [i.op for i in decode(assemble(back, (), f.__code__)).instrs]
    else:
        with pytest.raises(ValueError, match="can't jump backward"):
            assemble(back, (), f.__code__)
