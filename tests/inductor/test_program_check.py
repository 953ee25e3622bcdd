"""What the comparison of random programs allows, and that eager itself differs there."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
import torch.nn.functional as F

from minifier.fuzz.draw.tensor_programs import Program
from tests.inductor.program_check import (
    LOOPS,
    TWO_LOOPS,
    Bounds,
    Difference,
    Noise,
    check_program,
    compare,
    eager,
    observe,
    refusals,
    with_gaps,
)

DIFFERENT = "make((7, 1), torch.float64, 'normal', 'dense', 0)"
EQUAL = "torch.full((7, 1), 0.7, dtype=torch.float64)"
ARGUMENTS = {
    "elu": lambda grad, x: (grad, 1.0, 1.0, 1.0, False, x),
    "hardshrink": lambda grad, x: (grad, x, 0.5),
    "hardswish": lambda grad, x: (grad, x),
    "hardtanh": lambda grad, x: (grad, x, 0.0, 6.0),
    "logit": lambda grad, x: (grad, x, 0.1),
    "softshrink": lambda grad, x: (grad, x, 0.5),
}


def test_two_loops_has_the_functions_below() -> None:
    assert {f"{name}_backward" for name in ARGUMENTS} == TWO_LOOPS


@pytest.mark.parametrize("name", ARGUMENTS)
def test_eagers_two_loops_differ_at_nan(name: str) -> None:
    grad, x = torch.ones(128), torch.full((128,), torch.nan)
    op = getattr(torch.ops.aten, f"{name}_backward")
    vectors, singles = op(*ARGUMENTS[name](grad, x)), op(*ARGUMENTS[name](with_gaps(grad), with_gaps(x)))
    assert not torch.equal(vectors[:64].nan_to_num(7), singles[:64].nan_to_num(7))


@pytest.mark.parametrize("call", ["F.relu6({v})", "F.hardtanh({v})", "F.hardshrink({v})", "F.softshrink({v})", "F.elu({v})"])
def test_either_gradient_at_nan_is_accepted(call: str) -> None:
    made = "make((8, 4, 8, 3), torch.float16, 'special', 'reversed', 0)"
    body = ("v0 = torch.cat([a, a, a], 1)", f"v1 = {call.format(v='v0')}")
    check_program(Program((("a", made),), body, ("v1", "a.permute([0, 1, 2, 3])"), ("a",)))


@pytest.mark.parametrize("kind", [torch.int16, torch.int64, torch.bool, torch.float32])
def test_either_remainder_by_the_smallest_numbers_is_accepted(kind: torch.dtype) -> None:
    """Eager's loop of vectors says NaN, that of single elements 0; arguments of two types or in two orders are met by the second."""
    few, many = torch.full((128,), 5.0), torch.full((128,), 1e-40)
    assert torch.fmod(few, many)[:64].isnan().all() and not torch.fmod(with_gaps(few), with_gaps(many)).isnan().any()
    first = ("a", f"make((33, 3, 4, 4), {kind}, 'simple', 'strided', 1)")
    second = ("b", "make((33, 3, 4, 4), torch.bfloat16, 'special', 'channels_last', 3)")
    check_program(Program((first, second), ("v0 = torch.fmod(a, b)",), ("v0",), ()))


@pytest.mark.parametrize("call", ["torch.floor_divide(a, b)", "torch.div(a, b, rounding_mode='floor')", "a // b"])
def test_floors_of_quotients_by_the_smallest_numbers(call: str) -> None:
    """Eager's loops agree on infinity, though the remainder that it is computed from is NaN in one of torch's."""
    few, many = torch.full((128,), 0.1).bfloat16(), torch.full((128,), 1e-40).bfloat16()
    assert torch.floor_divide(few, many).isinf().all() and torch.floor_divide(with_gaps(few), with_gaps(many)).isinf().all()
    first = ("a", "make((17,), torch.bfloat16, 'normal', 'expanded', 1)")
    second = ("b", "make((16, 17), torch.bfloat16, 'special', 'dense', 3)")
    check_program(Program((first, second), (f"v0 = {call}",), ("v0",), ()))


@pytest.mark.parametrize("call", ["a.var((0,))", "a.std(0)", "torch.var_mean(a, 0)[0]", "a.t().var(1, keepdim=True)"])
def test_variances_of_equal_large_numbers_are_zero_but_for_rounding(call: str) -> None:
    """Eager's two loops differ there by more than any form of ours: one has zero."""
    column = torch.full((3,), 1e30, dtype=torch.float64)
    assert column[:, None].expand(3, 65).contiguous().var(0).max() == 0 and 1e28 < column.var() < 5e28
    check_program(Program((("a", "make((3, 65), torch.float64, 'special', 'expanded', 0)"),), (f"v0 = {call}",), ("v0",), ()))


def test_a_variance_that_is_only_rounding_may_be_zero_where_nothing_is_added_to_zero() -> None:
    """A remainder adds the divisor to the rounding of eager's mean, and nothing to a zero."""
    column = torch.full((7, 1), 0.7, dtype=torch.float64)
    assert column.var(0) > 0 and torch.remainder(column.var(0), torch.tensor(-1.25)) == -1.25
    first = ("a", "make((7, 1), torch.float64, 'normal', 'expanded', 0)")
    second = ("b", "make((1, 1), torch.float64, 'simple', 'expanded', 1)")
    check_program(Program((first, second), ("v0 = a ** 3", "v1 = torch.remainder(v0.var((0,), keepdim=True), b)"), ("v1",), ()))


@pytest.mark.parametrize(
    ("made", "call", "factor", "is_accepted"),
    [
        (DIFFERENT, "var", 1 + 1e-15, True),
        (DIFFERENT, "var", 1 + 1e-12, False),
        (DIFFERENT, "std", 1 + 1e-12, False),
        (EQUAL, "var", 0, True),
        (EQUAL, "var", 8, False),
        (EQUAL, "std", 8, False),
    ],
)
def test_a_variance_is_another_algorithms_or_it_is_wrong(made: str, call: str, factor: float, is_accepted: bool) -> None:
    program = Program((("a", made),), (f"v0 = a.{call}((0,))",), ("v0",), ())
    expected, error = eager(program)
    assert expected.outputs[0].item() > 0
    found, _ = eager(program)
    found.outputs[0].mul_(factor)
    with contextlib.nullcontext() if is_accepted else pytest.raises(Difference):
        compare("in one sum", program, expected, found, Bounds(program, expected, error))


def test_what_lies_at_the_mean_of_its_row_may_not_be_zero_once_normalised() -> None:
    """Some of these numbers are the mean of their row but for rounding, which is left to the order in which they are added."""
    check_program(Program((("b", "make((3, 4, 17), torch.float64, 'simple', 'strided', 1)"),), NORMALISED, ("v1",), ()))


def test_what_is_the_mean_of_its_row_may_be_zero_once_normalised() -> None:
    row = torch.tensor([1.25, 2.0, -0.5, -0.25, -1.25, 0.75, -2.75, -1.25], dtype=torch.bfloat16)
    assert row.double().mean() == row[3] and F.layer_norm(row, (8,))[3] < 0
    made = f"torch.tensor({row.tolist()}, dtype=torch.bfloat16)"
    check_program(Program((("a", made),), ("v0 = -0.0 / F.layer_norm(a, a.shape[-1:])",), ("v0",), ()))


def test_running_means_are_rounded_though_their_sum_is_exact() -> None:
    made = "make((65, 1), torch.float64, 'simple', 'reversed', 2)"
    program = Program((("a", made),), ("v0 = torch.var_mean(a, -2)[1]",), ("v0",), ())
    check_program(program)
    expected, error = eager(program)
    numbers = program.arguments()[0].flatten().tolist()
    mean = math.fsum(numbers) / len(numbers)
    assert mean != expected.outputs[0].item()
    for factor, is_accepted in ((1, True), (1 + 1e-11, False)):
        found, _ = eager(program)
        found.outputs[0].fill_(mean * factor)
        with contextlib.nullcontext() if is_accepted else pytest.raises(Difference):
            compare("in one sum", program, expected, found, Bounds(program, expected, error))


NORMALISED = ("v0 = F.layer_norm(b, b.shape[-1:])", "v1 = torch.linalg.vector_norm(v0, 0, (1, 2))")

THREE_HALVES = Program(
    (("d", "make((7, 33), torch.bfloat16, 'normal', 'strided', 3)"),),
    ("v0 = torch.sin(d)", "v1 = torch.cos(d)", "v2 = d.view([-1])"),
    ("v0", "v1", "v2"),
    ("d",),
)


def test_gradients_of_views_of_arguments_are_added_in_two_orders() -> None:
    together, apart = (observe(THREE_HALVES, THREE_HALVES.compile(), views_apart=apart).grads for apart in (False, True))
    assert together is not None and apart is not None and together[0] is not None and apart[0] is not None
    assert 0 < int((together[0] != apart[0]).sum()) < together[0].numel() / 2
    check_program(THREE_HALVES)


def test_a_pass_that_two_reasons_forbid_may_name_either() -> None:
    given = (("a", "make((), torch.float32, 'positive', 'dense', 0)"), ("b", "make((4, 8), torch.float64, 'positive', 'dense', 1)"))
    body = ("v0 = torch.igamma(a, b)", "v1 = F.huber_loss(a, b, reduction='none')")
    program = Program(given, body, ("v0", "v1"), ("a", "b"))
    assert type(eager(program)[1]) is RuntimeError  # 'Found dtype Double but expected Float'
    assert refusals(program) == {RuntimeError, NotImplementedError}
    check_program(program)
    assert refusals(Program(given, body, ("v1",), ("a", "b"))) == {RuntimeError}


@pytest.mark.parametrize("call", ["F.elu({v})", "F.hardshrink({v})", "F.softshrink({v})"])
def test_either_gradient_at_nan_is_accepted_in_the_last_elements(call: str) -> None:
    """65 elements: the last one is met by the loop of single elements wherever it lies in memory, unless there are more."""
    body = ("v0 = a.float().nanmean((1,))", f"v1 = {call.format(v='v0')}")
    check_program(Program((("a", "make((65, 33), torch.float64, 'special', 'dense', 2)"),), body, ("v1",), ("a",)))


EXTREMES_OF_ZEROS = "torch.fmin(v0, v1)", "torch.maximum(v1, v0)", "v0.clamp(max=v1)", "torch.stack([v0, v1]).amin(0)"


@pytest.mark.parametrize("call", [*EXTREMES_OF_ZEROS, "torch.stack([v1, v0], -1).max(-1)[0]", "torch.stack([v0, v1], -1).min(-1)[0]"])
def test_either_of_two_zeros_is_the_extreme(call: str) -> None:
    zeros, other = torch.zeros(37), -torch.zeros(37)
    assert torch.minimum(zeros, other).signbit().unique().tolist() == [False, True]  # eager's loops differ
    body = ("v0 = a * 0", "v1 = torch.abs(v0)", f"v2 = {call}", "v3 = torch.copysign(torch.ones((3, 17)), v2)")
    check_program(Program((("a", "make((3, 17), torch.float32, 'normal', 'dense', 0)"),), body, ("v3",), ()))


def test_two_zeros_of_one_sign_have_an_extreme() -> None:
    given = torch.zeros(64), torch.zeros(64)
    with Noise(0, 4.0):
        assert not any(torch.maximum(*given).signbit().any() or torch.minimum(*given).signbit().any() for _ in range(8))
        assert not any(torch.stack(given).amax(0).signbit().any() for _ in range(8))


@pytest.mark.parametrize("call", ["torch.dot(v0, v0)", "(v0 * v0).sum()"])
def test_small_results_of_erf_may_be_zero(call: str) -> None:
    """As eager's loop of vectors has them, right to an eps of 1."""
    assert torch.erf(torch.full((64,), -1e-7)).unique().tolist() != [-1e-7 * 2 / torch.pi**0.5]
    body = ("v0 = torch.erf(a)", f"v1 = {call}")
    check_program(Program((("a", "make((65,), torch.bfloat16, 'special', 'dense', 3)"),), body, ("v1",), ("a",)))


@pytest.mark.parametrize("function", ["cos", "cosh", "exp"])
def test_a_result_near_one_may_be_one(function: str) -> None:
    """What is left of it when a number as small is taken away differs in its first digit."""
    given = 2.0**-13 if function != "exp" else 2.0**-25
    program = Program((("a", f"torch.full((65,), {given})"),), (f"v0 = torch.{function}(a)", "v1 = v0.double() - 1"), ("v1",), ())
    expected, error = eager(program)
    bounds = Bounds(program, expected, error)

    assert not bounds.excess(0, torch.full((65,), -(2.0**-24), dtype=torch.float64), expected.outputs[0]).any()
    assert bounds.excess(0, torch.full((65,), -(2.0**-16), dtype=torch.float64), expected.outputs[0]).all()


@pytest.mark.parametrize("call", ["nanmean((0,), keepdim=True)", "sum(0)", "mean([0, 2])", "nansum(0)", "sum()"])
def test_what_is_left_of_large_numbers_depends_on_their_order(call: str) -> None:
    made = "make((5, 5, 4), torch.int32, 'special', 'channels_last', 2)"
    check_program(Program((("c", made),), (f"v0 = c.float().{call}",), ("v0",), ()))


def test_a_sum_without_rounding_is_the_same_in_any_order() -> None:
    given = torch.arange(-50.0, 70.0).reshape(4, 5, 6)
    for seed in range(8):
        with Noise(seed, 4.0):
            found = [given.sum(), given.sum(1), given.sum((0, 2), keepdim=True), given.nansum(0), given.mean(0)]
        expected = [given.sum(), given.sum(1), given.sum((0, 2), keepdim=True), given.nansum(0), given.mean(0)]
        assert all(torch.equal(f, e) for f, e in zip(found, expected, strict=True))


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7,), (5, 13)])
def test_every_loop_gives_the_same_for_plain_numbers(shape: tuple[int, ...]) -> None:
    given = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape) + 1
    for op, args in ((torch.ops.aten.mul.Tensor, (given, given)), (torch.ops.aten.mul.Tensor, (given, torch.tensor(2.0)))):
        assert all(torch.equal(loop(op, op(*args), args, {}), op(*args)) for loop in LOOPS)


def test_rests_that_no_rounding_has_changed_stay() -> None:
    """Of noise that a softmax leaves, some is smaller than its sum and equal to its own remainder."""
    small, large = torch.rand(64) + 1, torch.rand(64) + 2
    behind_the_point, difference = 1 - small, large - small
    with Noise(0, 4.0):
        assert torch.remainder(small, large).equal(small) and torch.fmod(-small, large).equal(-small)
        assert torch.frac(-small).equal(behind_the_point)
        assert not torch.remainder(-small, large).equal(difference)
    made = "make((2, 2, 2), torch.float32, 'normal', 'reversed', 0)"
    body = ("v0 = torch.func.grad(lambda s, t: torch.softmax(s - s.mean(), -1).sum())(a, a)", "v1 = v0.sum(0)")
    check_program(Program((("a", made),), (*body, "v2 = torch.eq(torch.remainder(v0, v1), v0) + 2"), ("v2",), ()))


def test_two_roundings_of_one_number_may_be_equal() -> None:
    made = "torch.linspace(-1, 1, 272, dtype=torch.float64)"
    body = ("v0 = torch.exp(a)", "v1 = torch.log(torch.exp(v0))", "v2 = torch.eq(v1, v0)", "v3 = torch.eq(v1, v0 + 1e-12)")
    program = Program((("a", made),), body, ("v2", "v3"), ())
    expected, error = eager(program)
    assert 0 < expected.outputs[0].sum() < 272 and not expected.outputs[1].any()
    for at, is_accepted in ((0, True), (1, False)):
        found, _ = eager(program)
        found.outputs[at].logical_not_()
        with contextlib.nullcontext() if is_accepted else pytest.raises(Difference):
            compare("inverted", program, expected, found, Bounds(program, expected, error))
