"""What the table of shapes says of classes of kernels that were measured, and how reductions are cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dynamo.trace import session
from inductor.targets.triton.machine import Facts, Shape, choose
from tests.benchmarks.gpu import ROWS, Row
from tests.benchmarks.gpu_shapes import plan_of
from tests.inductor.helpers import assert_same, compiled
from tests.inductor.triton.seam import interpreted, refusals

aten = torch.ops.aten


def flat(*, buffers: int, itemsize: int = 4) -> Shape:
    return choose(Facts(1 << 24, 0, itemsize, 1, 1, 0, False, False, False, False, buffers=buffers))


def test_what_reads_nothing_or_much_has_more_elements_a_thread() -> None:
    assert flat(buffers=1) == flat(buffers=5) == Shape("flat", 512, 0, 4)
    assert flat(buffers=0) == flat(buffers=6) == Shape("flat", 1024, 0, 4)
    assert flat(buffers=6, itemsize=2) == Shape("flat", 2048, 0, 4)
    assert flat(buffers=6, itemsize=8) == flat(buffers=1, itemsize=8)


def files_of(name: str) -> list[str]:
    return plan_of(next(row for row in ROWS if row.name == name))[1]


@pytest.mark.parametrize("words", [50257, 50304])
def test_sums_of_powers_take_two_steps_at_once(words: int) -> None:
    rows, total = files_of(f"cross entropy 8192x{words}")
    assert "loop_unroll_factor=2" in rows
    assert '"num_warps": 32' in total


def test_statistics_of_images_are_cut_into_whole_images() -> None:
    text = files_of("batch norm stats 64x256x56x56")[0]
    assert "(r0 % 3136) + (r0 // 3136) * 802816 + (x % 256) * 3136 + (x // 256) * 12845056" in text


def test_columns_of_moments_have_four_steps_on_their_way() -> None:
    assert "4 stages" in files_of("batch norm stats 64x256x56x56 channels last")[0]
    assert "3 stages" in files_of("batch norm backward 64x256x56x56 channels last")[0]


@pytest.mark.parametrize(
    ("rows", "itemsize", "streams", "shape"),
    [
        (256, 4, 2, Shape("column", 8, 256, 4)),
        (1024, 4, 3, Shape("column", 8, 1024, 8)),
        (1024, 2, 3, Shape("column", 16, 1024, 16)),
        (3136, 4, 3, Shape("column", 8, 4096, 16)),
        (3136, 4, 8, Shape("column", 16, 128, 4, is_looped=True, stages=2)),  # too much for registers, and for three steps in shared memory
    ],
)
def test_what_lies_below_few_columns_is_held(rows: int, itemsize: int, streams: int, shape: Shape) -> None:
    assert choose(Facts(512, rows, itemsize, 1, 2, streams, False, False, True, False)) == shape


@pytest.mark.parametrize(
    ("rows", "columns", "itemsize", "shape"),
    [
        (16, 128, 4, Shape("row", 8, 128, 8)),  # a warp reads a row at once
        (32768, 100, 4, Shape("row", 8, 128, 8)),
        (32768, 100, 2, Shape("row", 8, 128, 1)),  # converted once it is there: 64 bytes a thread
        (2, 32, 4, Shape("row", 2, 32, 1)),
        (32768, 256, 4, Shape("row", 2, 256, 1)),  # 64 bytes a thread
        (128, 256, 4, Shape("row", 1, 256, 1)),
        (32768, 512, 2, Shape("row", 2, 512, 1)),
        (32768, 1024, 4, Shape("row", 1, 1024, 2)),
        (32768, 2048, 4, Shape("row", 1, 2048, 4)),
        (128, 2048, 4, Shape("row", 1, 2048, 8)),  # few: warps share them
        (32768, 49, 4, Shape("row", 8, 64, 1)),  # of an odd length: element by element
        (2048, 49, 4, Shape("row", 4, 64, 1)),
        (32768, 197, 2, Shape("row", 2, 256, 1)),
    ],
)
def test_warps_share_no_short_row_that_one_can_hold(rows: int, columns: int, itemsize: int, shape: Shape) -> None:
    assert choose(Facts(rows, columns, itemsize, 1, 2, 1, False, False, False, False)) == shape


def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
    out, *statistics = aten._native_batch_norm_legit_functional(x, w, b, mean, var, True, 0.1, 1e-5)
    return out.relu(), *statistics


def norm_backward(grad: torch.Tensor, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor) -> Any:
    return aten.native_batch_norm_backward(aten.threshold_backward(grad, out, 0), x, w, None, None, mean, rstd, True, 1e-5, [True] * 3)


def given_for(fn: Callable[..., Any], shape: tuple[int, ...], device: str = "cpu") -> list[torch.Tensor]:
    images, rest = (1, 4) if fn is norm else (3, 3)
    given = [torch.randn(shape, device=device).to(memory_format=torch.channels_last) for _ in range(images)]
    return given + [torch.rand(shape[1], device=device) + 0.5 for _ in range(rest)]


@pytest.mark.parametrize(("shape", "kernels"), [((16, 320, 8, 8), 1), ((64, 512, 7, 7), 1), ((64, 256, 56, 56), 3)])
@pytest.mark.parametrize("fn", [norm, norm_backward])
def test_norms_of_small_images_are_one_kernel(fn: Callable[..., Any], shape: tuple[int, ...], kernels: int) -> None:
    """Those of large images are statistics of parts, of all, and what is made of them: no program walks a whole channel."""
    row = Row("norm", fn, lambda: given_for(fn, shape, "cuda"), 0)
    assert len(plan_of(row)[1]) == kernels


@pytest.mark.parametrize("shape", [(3, 10, 9, 9), (16, 9, 4, 4), (2, 130, 11, 13)])
@pytest.mark.parametrize("fn", [norm, norm_backward])
def test_norms_of_small_images_are_right(fn: Callable[..., Any], shape: tuple[int, ...]) -> None:
    given = given_for(fn, shape)
    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given), rtol=1e-4, atol=1e-4)
    assert refusals(store) == []


@pytest.mark.parametrize(("rows", "columns", "kernels"), [(100, 300, 2), (64, 4096, 2), (8, 8192, 2), (8, 65536, 3)])
def test_few_rows_that_programs_keep_are_reduced_and_written_by_one_kernel(rows: int, columns: int, kernels: int) -> None:
    """A sum of columns beside is a kernel of its own. Longer rows are statistics of parts, then of all, and the rest."""
    row = Row("few", lambda x: (x.softmax(-1) * 2, x.sum(0)), lambda: [torch.randn(rows, columns, device="cuda")], 0)
    assert len(plan_of(row)[1]) == kernels


@pytest.mark.parametrize("columns", [9000, 9001, 20000, 33001])
def test_steps_that_are_taken_together_leave_none_out(columns: int) -> None:
    given = [torch.randn(3, columns), torch.randint(0, columns, (3,))]
    with interpreted(), session() as store:
        found = compiled(lambda x, t: (F.cross_entropy(x, t), x.logsumexp(1)), given)(*given)
    assert_same(found, (F.cross_entropy(*given), given[0].logsumexp(1)), rtol=1e-5, atol=1e-5)
    assert refusals(store) == []
