"""What the table of shapes says of classes of kernels that were measured, and how reductions are cut."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from dynamo.trace import session
from inductor.targets.triton.machine import Facts, Shape, choose
from tests.benchmarks.gpu import ROWS
from tests.benchmarks.gpu_shapes import plan_of
from tests.inductor.helpers import assert_same, compiled
from tests.inductor.triton.seam import interpreted, refusals


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


@pytest.mark.parametrize("columns", [9000, 9001, 20000, 33001])
def test_steps_that_are_taken_together_leave_none_out(columns: int) -> None:
    given = [torch.randn(3, columns), torch.randint(0, columns, (3,))]
    with interpreted(), session() as store:
        found = compiled(lambda x, t: (F.cross_entropy(x, t), x.logsumexp(1)), given)(*given)
    assert_same(found, (F.cross_entropy(*given), given[0].logsumexp(1)), rtol=1e-5, atol=1e-5)
    assert refusals(store) == []
