"""The loop IR: index algebra, text form, verifier, reference interpreter."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor.ir import interp
from inductor.ir.affine import ZERO, Axis, Index, const, of_atom
from inductor.ir.expr import call, kept, load, moved, reduce, rewrite, walk
from inductor.ir.expr import const as value
from inductor.ir.nest import Buffer, Nest, Program, Store, View
from inductor.ir.ops import OPS
from inductor.ir.overwrites import put_writes_last
from inductor.ir.text import print_program
from inductor.ir.verify import VerifyError, verify
from tests.inductor.reading_ir import ParseError, parse_program

AXES = AI, AJ, AK = Axis("i", 6), Axis("j", 4), Axis("k", 5)


def evaluate(index: Index, point: dict[Axis, int]) -> int:
    total = index.const
    for atom, coef in index.terms:
        if isinstance(atom, Axis):
            total += coef * point[atom]
        else:
            inner = evaluate(atom.of, point)
            total += coef * (inner // atom.by if type(atom).__name__ == "Div" else inner % atom.by)
    return total


steps = st.lists(st.tuples(st.sampled_from(["add", "mul", "div", "mod"]), st.integers(1, 13)), max_size=5)


@given(st.tuples(st.integers(-5, 30), st.integers(-5, 30), st.integers(-5, 30)), st.integers(-20, 20), steps)
@settings(max_examples=300, deadline=None)
def test_simplification_is_exact(coefs, start, operations):
    index = const(start)
    for axis, coef in zip(AXES, coefs, strict=True):
        index = index + of_atom(axis) * coef

    def apply(x, kind, by):
        return {"add": lambda: x + by, "mul": lambda: x * by, "div": lambda: x // by, "mod": lambda: x % by}[kind]()

    for kind, by in operations:
        index = apply(index, kind, by)
    for i, j, k in itertools.product(range(6), range(4), range(5)):
        expected = start + sum(c * v for c, v in zip(coefs, (i, j, k), strict=True))
        for kind, by in operations:
            expected = apply(expected, kind, by)
        found = evaluate(index, {AI: i, AJ: j, AK: k})
        assert found == expected
        assert index.bounds[0] <= found <= index.bounds[1]


@given(
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30)),
    st.integers(-20, 20),
    st.lists(st.integers(2, 6), min_size=1, max_size=4),
    st.integers(-2, 2),
    st.integers(-3, 3),
)
@settings(max_examples=300, deadline=None)
def test_digits_put_together_are_the_remainder(coefs, start, bases, coef, more):
    index = const(start)
    for axis, c in zip(AXES, coefs, strict=True):
        index = index + of_atom(axis) * c
    total, step = ZERO, 1
    for base in bases:
        total = total + ((index // step + more) % base) * (step * coef)
        step *= base
    for i, j, k in itertools.product(range(6), range(4), range(5)):
        number = start + sum(c * v for c, v in zip(coefs, (i, j, k), strict=True))
        expected, below = 0, 1
        for base in bases:
            expected, below = expected + (number // below + more) % base * below * coef, below * base
        assert evaluate(total, {AI: i, AJ: j, AK: k}) == expected


def test_digits_that_follow_each_other_are_one_remainder():
    r = of_atom(Axis("r", 192))
    assert (r // 4 % 4) * 4 + r % 4 is r % 16
    assert (r // 16 % 3) * 32 + (r // 4 % 4) * 8 + (r % 4) * 2 is (r % 48) * 2
    assert (r // 48) * 48 + (r // 4 % 12) * 4 + r % 4 is r
    assert ((r + 5) // 4 % 4) * 4 + (r + 5) % 4 is (r + 5) % 16
    pair = of_atom(AI) * 18 + of_atom(Axis("p", 18))  # its remainder by 4 has 2 in place of 18
    assert (pair // 4) * 4 + pair % 4 is pair
    assert (pair // 4 % 3) * 4 + pair % 4 is pair % 12
    other = of_atom(Axis("o", 192))
    assert len(((other // 4 % 4) * 4 + r % 4).terms) == 2


def test_reshape_indices_simplify_to_strides():
    flat = of_atom(Axis("f", 24))
    i, j = flat // 6, flat % 6
    assert (i * 6 + j) is flat
    assert ((of_atom(AI) * 4 + of_atom(AJ)) // 4) is of_atom(AI)
    assert ((of_atom(AI) * 4 + of_atom(AJ)) % 4) is of_atom(AJ)
    whole = flat * 5 + of_atom(AK)  # [24, 5] seen as [4, 6, 5] and back
    assert (whole // 30) * 30 + ((whole // 5) % 6) * 5 + whole % 5 is whole


def test_equal_indices_are_one_object():
    assert of_atom(AI) * 3 + of_atom(AJ) is of_atom(AJ) + of_atom(AI) * 3


TEXT = """\
in a0: f32[4, 8] (8, 1)
in a1: i64[4] (1)
temp b0: f32[4] (1)
temp b1: bf16[4, 8] (8, 1)
nest n0 (i0:4) ; sum.dim_IntList model.py:3
  %0 = load a0[8*i0 + r0] : f32
  %1 = reduce sum.0(%0) over (r0:8) : f32
  %2 = const 0x1.0000000000000p-3 : f32
  %3 = mul(%1, %2) : f32
  store b0[i0] = %3
nest n1 (i0:4, i1:8) ; sub.Tensor model.py:4 | gather.default model.py:5
  %0 = load a1[i0] : i64
  %1 = check 4 of (%0) : i64
  %2 = load a0[8*$0 + i1 | $0:4=%1] : f32
  %3 = load b0[i0] : f32
  %4 = sub(%2, %3) : f32
  %5 = cast(%4) : bf16
  store b1[8*i0 + i1] = %5
return b1[4, 8](8, 1)+0
"""


def test_rewriting_asks_once_per_node_and_operands_first():
    x = load("x", "f32", of_atom(AI))
    root = call("add", call("exp", x), call("mul", call("exp", x), x))
    asked = []
    (same,) = rewrite([root], lambda node, args: (asked.append(node), kept(node, args))[1])
    assert same is root
    assert asked == list(walk(root))


def test_rewriting_does_not_look_below_what_is_known():
    x, y = load("x", "f32", of_atom(AI)), load("y", "f32", of_atom(AI))
    known = {call("exp", x): y}
    assert rewrite([call("add", call("exp", x), y)], kept, known) == (call("add", y, y),)
    assert x not in known


def test_rewriting_folds_as_making_does():
    j = Index(0)
    assert rewrite([call("add", load("x", "f32", of_atom(AI)), value(1, "f32"))], moved({AI: j})) == (
        call("add", load("x", "f32", j), value(1, "f32")),
    )
    test = load("c", "bool", j)
    assert rewrite([call("where", test, value(1, "f32"), value(2, "f32"))], kept, {test: value(1, "bool")}) == (value(1, "f32"),)


def test_rewriting_goes_deeper_than_pythons_stack():
    root = load("x", "f32", of_atom(AI))
    for _ in range(5_000):
        root = call("neg", root)
    (found,) = rewrite([root], moved({AI: of_atom(AJ)}))
    assert next(iter(walk(found))) is load("x", "f32", of_atom(AJ))
    assert sum(1 for _ in walk(found)) == 5_001


def test_text_round_trip():
    program = parse_program(TEXT)
    verify(program, "parse")
    assert print_program(program) == TEXT


def test_interpreter_runs_text():
    x, index = torch.randn(4, 8), torch.tensor([3, 0, 0, 1])
    (found,), nan = interp.run(parse_program(TEXT), [x, index])
    torch.testing.assert_close(found, (x[index] - x.mean(1, keepdim=True)).bfloat16())
    assert nan is None


def test_parse_error_names_the_line():
    with pytest.raises(ParseError, match="line 2"):
        parse_program("in a0: f32[4] (1)\nsomething else\n")


def program_of(*nests: Nest, size: int = 8) -> Program:
    buffers = {n: Buffer(n, torch.float32, (size,), (1,), k) for n, k in (("a0", "input"), ("b0", "temp"), ("b1", "temp"))}
    return Program(buffers=buffers, inputs=["a0"], steps=list(nests), outputs=[View("b0", (size,), (1,), 0)])


A = Axis("i0", 8)
X = load("a0", "f32", of_atom(A))


@pytest.mark.parametrize(
    "nest, message",
    [
        (Nest("n", (A,), (Store("b0", of_atom(A) + 1, X),)), "outside"),
        (Nest("n", (A,), (Store("b0", of_atom(Axis("z", 8)), X),)), "no loop declares"),
        (Nest("n", (A,), (Store("nowhere", of_atom(A), X),)), "unknown buffer"),
        (Nest("n", (A,), (Store("b0", of_atom(A), load("b1", "f32", of_atom(A))),)), "before anything writes"),
        (Nest("n", (A,), (Store("b0", of_atom(A), load("a0", "f64", of_atom(A))),)), "f64"),
        (Nest("n", (A, A), (Store("b0", of_atom(A), X),)), "twice"),
        (Nest("n", (A,), (Store("b0", of_atom(A), reduce("sum", X, (Axis("r", 4), Axis("r", 2)))),)), "twice"),
    ],
)
def test_verifier_refuses(nest, message):
    with pytest.raises(VerifyError, match=message):
        verify(program_of(nest), "test")


def test_interpreter_finds_overlapping_stores():
    nest = Nest("n", (A,), (Store("b0", of_atom(A) // 2, X),))
    with pytest.raises(interp.InterpError, match="one element at two points"):
        interp.run(program_of(nest), [torch.ones(8)])


def test_interpreter_finds_uninitialised_reads():
    half = Axis("i0", 4)
    first = Nest("n0", (half,), (Store("b1", of_atom(half), load("a0", "f32", of_atom(half))),))
    second = Nest("n1", (A,), (Store("b0", of_atom(A), load("b1", "f32", of_atom(A))),))
    with pytest.raises(interp.InterpError, match="nothing has written"):
        interp.run(program_of(first, second), [torch.ones(8)])


def test_interpreter_finds_accesses_out_of_bounds():
    nest = Nest("n", (A,), (Store("b0", of_atom(A), load("a0", "f32", of_atom(A) + 3)),))
    with pytest.raises(interp.InterpError, match=r"reaches 3\.\.10"):
        interp.run(program_of(nest), [torch.ones(8)])


def test_interpreter_names_the_first_nan():
    nest = Nest("n", (A,), (Store("b0", of_atom(A), call("add", call("sqrt", X), value(1.0, "f32"))),))
    _, origin = interp.run(program_of(nest), [torch.arange(8.0) - 4])
    assert origin is not None
    assert origin.instruction.startswith("sqrt")


def write_back(*nests: Nest) -> Program:
    program = program_of(*nests)
    program.outputs, program.mutated = [], {"a0"}
    return program


BACKWARDS = load("a0", "f32", of_atom(A) * -1 + 7)


@pytest.mark.parametrize(
    "nests",
    [
        (Nest("n", (A,), (Store("a0", of_atom(A), BACKWARDS),)),),
        (Nest("n", (A,), (Store("a0", of_atom(A), call("add", X, BACKWARDS)),)),),
        (Nest("n", (A,), (Store("a0", of_atom(A), value(1.0, "f32")),)), Nest("m", (A,), (Store("b0", of_atom(A), X),))),
    ],
)
def test_reads_of_what_is_overwritten_are_refused(nests):
    with pytest.raises(VerifyError, match="reads a0 after it is overwritten"):
        verify(write_back(*nests), "test")
    with pytest.raises(interp.InterpError, match="load of a0"):
        interp.run(write_back(*nests), [torch.ones(8)])


def test_an_element_may_be_read_where_it_is_overwritten():
    program, x = write_back(Nest("n", (A,), (Store("a0", of_atom(A), call("add", X, X)),))), torch.ones(8)
    verify(program, "test")
    interp.run(program, [x])
    assert x.tolist() == [2.0] * 8


def test_reads_are_put_before_the_overwriting():
    first = Nest("n", (A,), (Store("a0", of_atom(A), value(1.0, "f32")),))
    program = write_back(first, Nest("m", (A,), (Store("b0", of_atom(A), X),)))
    put_writes_last(program)
    assert [s.name for s in program.steps] == ["m", "n"]


@pytest.mark.parametrize("name", ["max", "min"])
def test_of_two_zeros_the_second_is_the_extreme(name):
    zeros = torch.tensor([0.0, -0.0] * 20)
    assert OPS[name].interpret(zeros, -zeros).signbit().tolist() == (-zeros).signbit().tolist()
    nan = torch.full_like(zeros, torch.nan)
    assert OPS[name].interpret(zeros, nan).isnan().all()
    assert OPS[name].interpret(nan, zeros).isnan().all()
