"""Convolution networks on a GPU: which kernels and calls they are, and in which layout."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.ir.nest import Extern
from inductor.passes.layout import channels_last_strides
from inductor.schedule.plan import Plan
from inductor.targets.triton.kernel import TritonKernel
from tests.inductor.triton.pretend import on_cuda

aten = torch.ops.aten


class Network(nn.Module):
    """Two convolutions with batch norms, and one around them."""

    def __init__(self, groups: int = 1) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.second, self.norm2 = nn.Conv2d(16, 16, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(self.first(x)).relu()
        return (self.norm2(self.second(x)) + x).relu()


def plans_of(model: nn.Module, x: torch.Tensor) -> list[Plan]:
    """The plans of a call, its backward's too where gradients are wanted. Every graph is compiled."""
    with session() as store, on_cuda() as made:
        dynamo.compile(model, backend="inductor", fullgraph=True)(x)
    assert [n.message for n in store.of(Note) if n.id == "DI002"] == []
    return made.plans


def calls(plan: Plan) -> list[Extern]:
    return [s for s in plan.steps if isinstance(s, Extern)]


def last(plan: Plan) -> list[bool]:
    """Of every image that a convolution makes, whether it is channels last."""
    buffers = [plan.program.buffers[s.outs[0]] for s in calls(plan) if s.outs[0] is not None]
    return [b.strides == channels_last_strides(b.shape) for b in buffers]


def test_training() -> None:
    forward, backward = plans_of(Network().train(), torch.randn(4, 8, 16, 16, requires_grad=True))
    assert [s.target for s in calls(forward)] == [aten.convolution.default] * 2
    assert [s.target for s in calls(backward)] == [aten.convolution_backward.default] * 2
    assert last(forward) == last(backward) == [True, True]
    assert len(forward.kernels) <= 1 + 2 * 2 + 1  # images to channels last; statistics and what follows; counters


def test_counters_are_one_kernel() -> None:
    forward, _ = plans_of(Network().train(), torch.randn(4, 8, 16, 16))
    counters = {n for n in forward.program.inputs if forward.program.buffers[n].dtype is torch.int64}
    writers = [k for k in forward.kernels if counters & set(k.writes)]
    assert len(counters) == 2 and len(writers) == 1
    assert isinstance(writers[0], TritonKernel) and len(writers[0].rows) == 2


def test_statistics_are_written_by_the_kernel_that_computes_them() -> None:
    forward, _ = plans_of(Network().train(), torch.randn(4, 8, 16, 16))
    written = {n: k for k in forward.kernels for n in k.writes if n in forward.program.inputs}
    assert all(k.how()[0] != "flat" or k.rows for k in written.values())


@pytest.mark.parametrize("groups", [1, 4])
def test_evaluation(groups: int) -> None:
    """One kernel copies the image, two scale weights and shift for the fused call, and the last writes in the strides of eager."""
    with torch.no_grad():
        (plan,) = plans_of(Network(groups).eval(), torch.randn(4, 8, 32, 32))
    assert [s.target for s in calls(plan)] == [aten.cudnn_convolution_relu.default, aten.convolution.default]
    assert last(plan) == [True, True]
    assert len(plan.kernels) == 1 + 2 + 1


@pytest.mark.parametrize(
    "model, x",
    [(lambda: Network(groups=16), torch.randn(2, 8, 8, 8)), (lambda: Network().double(), torch.randn(2, 8, 8, 8, dtype=torch.float64))],
    ids=["depthwise", "float64"],
)
def test_other_convolutions_keep_their_layout(model: Callable[[], nn.Module], x: torch.Tensor) -> None:
    with torch.no_grad():
        (plan,) = plans_of(model().eval(), x)
    assert last(plan) == [False, False]


def test_without_tensor_cores_images_stay_contiguous() -> None:
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        (plan,) = plans_of(Network().eval(), torch.randn(2, 8, 8, 8))
    assert last(plan) == [False, False]


SCATTERS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "embedding": (lambda w, i: F.embedding(i, w), (torch.randn(9, 64), torch.randint(0, 9, (33,)))),
    "max pool": (lambda x: F.max_pool2d(x * 2, 3, 2, 1), (torch.randn(2, 4, 17, 17),)),
    "index_put": (lambda x, i, y: x.index_put((i,), y, accumulate=True), (torch.randn(9, 4), torch.tensor([1, 1]), torch.randn(2, 4))),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_sums_of_16_bits_have_kernels(name: str) -> None:
    """There is no atomic addition of bfloat16: they are summed in float32, as ATen does there."""
    fn, given = SCATTERS[name]
    narrow = [t.to(torch.bfloat16).requires_grad_() if t.is_floating_point() else t for t in given]
    with on_cuda() as made:
        dynamo.compile(fn, backend="inductor", fullgraph=True)(*narrow)
    kernels = [(k, plan.program.buffers) for plan in made.plans for k in plan.kernels if isinstance(k, TritonKernel)]
    sums = [buffers[b] for k, buffers in kernels if any(s.mode == "add" for m in k.members for s in m.stores) for b in k.writes]
    assert sums and all(b.dtype is torch.float32 for b in sums)
    assert not any(k.refusal for k, _ in kernels)
