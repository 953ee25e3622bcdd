"""Reductions that one program cannot do alone: the parts, what a program that stays keeps, and how both are put together.

Limits are lowered, so that small tensors are cut as large ones are; results are compared with float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo.decisions import compiling
from dynamo.trace import session
from inductor.ir import interp
from inductor.ir.verify import verify
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.schedule.check import verify_plan
from inductor.schedule.inline import inline
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan, schedule
from inductor.schedule.split import split_reductions
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.machine import Device
from inductor.targets.triton.target import LIMITS, TritonTarget, limits_of
from tests.inductor.helpers import assert_same, compiled, flat, trace
from tests.inductor.triton.seam import interpreted, kernels_of, refusals

SMALL = replace(LIMITS, programs=16, long_reduction=192, alone=0, staying=4, staying_columns=128, spread=128, moments=24)

Fn = Callable[..., Any]


def layer_norm_backward(g: torch.Tensor, x: torch.Tensor, m: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
    return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], m, r, w, w, [True, True, True])


def rms_norm_backward(g: torch.Tensor, x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> Any:
    normal, scaled = x * r, g * w
    return (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * r, (g * normal).sum(0)


def softmax_backward(g: torch.Tensor, y: torch.Tensor) -> Any:
    d = y * (g - (g * y).sum(-1, keepdim=True))
    return d, d.sum(0)


def columns_first(x: torch.Tensor, w: torch.Tensor) -> Any:
    """The sums of columns come before those of rows, and what is made of both after."""
    total, rows = (x * w).sum(0), (x * w).sum(1, keepdim=True)
    return total, x - rows, total * 2


def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    return torch.ops.aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)


def batch_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, m: torch.Tensor, r: torch.Tensor) -> Any:
    return torch.ops.aten.native_batch_norm_backward(g, x, w, None, None, m, r, True, 1e-5, [True, True, True])


def normal(*shape: int, shift: float = 0.0) -> torch.Tensor:
    return torch.randn(shape) + shift


def rows_of(name: str, rows: int, columns: int) -> tuple[Fn, list[torch.Tensor]]:
    x, g = normal(rows, columns, shift=1), normal(rows, columns)
    mean, rstd = x.mean(-1, keepdim=True), (x.var(-1, keepdim=True) + 1e-5).rsqrt()
    return {
        "layer norm backward": (layer_norm_backward, [g, x, mean, rstd, normal(columns)]),
        "rms norm backward": (rms_norm_backward, [g, x, rstd, normal(columns)]),
        "softmax backward": (softmax_backward, [g, torch.softmax(x, -1)]),
        "columns first": (columns_first, [x, normal(columns)]),
    }[name]


def images_of(name: str, shape: tuple[int, ...], layout: torch.memory_format) -> tuple[Fn, list[torch.Tensor]]:
    x = normal(*shape, shift=30).contiguous(memory_format=layout)
    g = normal(*shape).contiguous(memory_format=layout)
    n = shape[1]
    mean, rstd = x.mean((0, 2, 3)), (x.var((0, 2, 3)) + 1e-5).rsqrt()
    return {
        "moments": (lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1:], [x]),
        "batch norm": (batch_norm, [x, normal(n), normal(n)]),
        "batch norm backward": (batch_norm_backward, [g, x, normal(n), mean, rstd]),
    }[name]


def plan_of(fn: Fn, given: Sequence[torch.Tensor], limits: Limits = SMALL) -> Plan:
    """The checked schedule for a GPU."""
    target = TritonTarget()
    target.limits = limits
    with compiling("test", "test.fw"):
        program, _ = lower_graph(rewrite(trace(fn, given)))
        plan = schedule(program, target)
    verify(plan.program, "schedule")
    verify_plan(plan)
    return plan


def parted(fn: Fn, given: Sequence[torch.Tensor]) -> list[Any]:
    """What the loop IR computes once reductions are cut."""
    with compiling("test", "test.fw"):
        program, _ = lower_graph(rewrite(trace(fn, given)))
        inline(program, SMALL)
        split_reductions(program, SMALL)
    verify(program, "split")
    return interp.run(program, given)[0]


def assert_right(fn: Fn, given: Sequence[torch.Tensor], atol: float = 1e-4) -> list[TritonKernel]:
    """Kernels and the loop IR compute what eager does with float64."""
    expected = [e.float() for e in flat(fn(*(t.double() for t in given)))]
    with interpreted(SMALL), session() as store:
        found = compiled(fn, given)(*given)
    assert refusals(store) == []
    assert_same(flat(found), expected, rtol=2e-5, atol=atol, strides=False)
    assert_same(parted(fn, given), expected, rtol=2e-5, atol=atol, strides=False)
    return [k for k in plan_of(fn, given).kernels if isinstance(k, TritonKernel)]


@pytest.mark.parametrize("name", ["layer norm backward", "rms norm backward", "softmax backward", "columns first"])
def test_rows_and_columns_of_one_tile_are_one_kernel_and_what_it_leaves(name: str) -> None:
    kernels = assert_right(*rows_of(name, 96, 48))
    assert len(kernels) == 2
    assert kernels[0].shape is not None
    assert kernels[0].shape.kind == "walk"


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["layer norm backward", "rms norm backward", "softmax backward", "columns first"]),
    rows=st.integers(1, 24).map(lambda n: n * 8),
    columns=st.integers(2, 130),
)
def test_rows_and_columns_of_any_size(name: str, rows: int, columns: int) -> None:
    assert_right(*rows_of(name, rows, columns))


def test_few_rows_are_normalised_by_the_kernel_that_reads_them() -> None:
    plan = plan_of(lambda x, w: torch.nn.functional.layer_norm(x, (1024,), w), [torch.randn(2048, 1024), torch.randn(1024)], LIMITS)

    assert len(plan.kernels) == 1


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_both_moments_are_one_pass(layout: torch.memory_format) -> None:
    x = images_of("moments", (6, 5, 16, 16), layout)
    first, second = assert_right(*x)
    assert first.reads == ("a0",) and "a0" not in second.reads


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["moments", "batch norm", "batch norm backward"]),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 9), st.integers(1, 18), st.integers(1, 18)),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_statistics_of_any_size(name: str, shape: tuple[int, ...], layout: torch.memory_format) -> None:
    if shape[0] * shape[2] * shape[3] > 1:  # of one value there is no variance
        assert_right(*images_of(name, shape, layout), atol=1e-3)


SUMS: dict[str, Fn] = {
    "columns": lambda x: x.sum(0),
    "everything": lambda x: x.sum(),
    "largest": lambda x: x.amax(0),
    "middle": lambda x: x.view(2, -1, x.shape[1]).mean(1),
}


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(SUMS)), rows=st.integers(1, 400).map(lambda n: 2 * n), columns=st.integers(1, 200))
def test_sums_of_any_size(name: str, rows: int, columns: int) -> None:
    assert_right(SUMS[name], [normal(rows, columns)], atol=1e-3)


def test_sums_are_the_same_each_time() -> None:
    fn, given = rows_of("layer norm backward", 96, 48)
    with interpreted(SMALL):
        run = compiled(fn, given)
        first, again = run(*given), run(*given)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def bf16(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16)


AHEAD = [(16384, 4096, (2, 4096, 8, 3)), (8192, 8192, (1, 8192, 8, 3)), (32768, 1024, (4, 1024, 4, 3)), (16384, 768, (4, 1024, 4, 4))]


@pytest.mark.parametrize(("rows", "columns", "shape"), AHEAD)
def test_as_much_is_on_its_way_as_was_measured_to_be_best(rows: int, columns: int, shape: tuple[int, ...]) -> None:
    stats = torch.empty(rows, 1)
    (first, _), _ = kernels_of(layer_norm_backward, [bf16(rows, columns), bf16(rows, columns), stats, stats, bf16(columns)])
    assert first.shape is not None
    assert (first.shape.rows, first.shape.columns, first.shape.warps, first.shape.stages) == shape


@pytest.mark.parametrize(("processors", "programs"), [(132, 512), (108, 256), (8, 32)])
def test_what_follows_from_the_number_of_processors(processors: int, programs: int) -> None:
    found = limits_of(Device(processors=processors))
    assert (found.few_iterations, found.staying, found.programs) == (processors, processors, programs)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


LONG: dict[str, Fn] = {
    "softmax": softmax,
    "log softmax": lambda x: torch.log_softmax(x, -1) * 2,
    "both": lambda x: (torch.softmax(x, -1), torch.softmax(x, -1).sum(-1), torch.log_softmax(x, -1)),
    "softmax of a product": lambda x: torch.softmax(x * 3, -1) + x,
    "its gradient": lambda x: torch.ops.aten._softmax_backward_data(x.sin(), torch.softmax(x, -1), -1, x.dtype),
    "shares": lambda x: x / x.sum(-1, keepdim=True),
    "from the mean": lambda x: x - x.mean(),
    "normal": lambda x: (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True),
}


@pytest.mark.parametrize("name", ["softmax", "log softmax", "softmax of a product", "shares", "from the mean"])
def test_few_long_rows_are_two_kernels(name: str) -> None:
    parts, ends = assert_right(LONG[name], [normal(2, 1024).abs() + 1])

    assert parts.reads == ("a0",)
    assert set(ends.reads) == {"a0", *parts.writes}


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(LONG)), rows=st.integers(1, 20), columns=st.integers(2, 150).map(lambda n: 16 * n))
def test_long_rows_of_any_size(name: str, rows: int, columns: int) -> None:
    assert_right(LONG[name], [normal(rows, columns).abs() + 1])


def test_parts_of_a_row_without_a_number_leave_the_others_alone() -> None:
    x = normal(5, 1024)
    x[0, 100:300], x[1, 64:], x[2], x[3, 7], x[4, 900] = -torch.inf, -torch.inf, -torch.inf, torch.nan, torch.inf
    with interpreted(SMALL):
        found = compiled(softmax, [x])(x)
    assert_same(flat(found), [softmax(x)], rtol=1e-5, atol=1e-6)
    assert_same(parted(softmax, [x]), [softmax(x)], rtol=1e-5, atol=1e-6)


def test_results_that_are_asked_for_are_made_once() -> None:
    x = normal(8, 131072)

    assert len(plan_of(lambda x: x / x.sum(-1, keepdim=True), [x], LIMITS).kernels) == 2
    assert len(plan_of(lambda x: ((s := x.sum(-1, keepdim=True)), x / s), [x], LIMITS).kernels) == 3
