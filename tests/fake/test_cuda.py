"""Fakes of GPU tensors against real ones; without a GPU the same programs run on fakes alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dynamo.fake import FakeMode
from tests.fake.observe import facts, gradients

CUDA = torch.device("cuda", 0)
LAST = torch.channels_last


def images(fmt: torch.memory_format = torch.contiguous_format, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(2, 4, 8, 8, dtype=dtype).to(memory_format=fmt)


PROGRAMS: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "conv": (F.conv2d, (images(), torch.randn(6, 4, 3, 3))),
    "conv channels last": (F.conv2d, (images(LAST), torch.randn(6, 4, 3, 3))),
    "conv weight channels last": (F.conv2d, (images(), torch.randn(6, 4, 3, 3).to(memory_format=LAST))),
    "conv half": (F.conv2d, (images(LAST, torch.float16), torch.randn(6, 4, 3, 3, dtype=torch.float16))),
    "conv transpose": (F.conv_transpose2d, (images(), torch.randn(4, 6, 3, 3))),
    "conv1d": (F.conv1d, (torch.randn(2, 4, 8), torch.randn(6, 4, 3))),
    "batch norm": (lambda x, w: F.batch_norm(x, None, None, w, w, True), (images(), torch.randn(4))),
    "batch norm channels last": (lambda x, w: F.batch_norm(x, None, None, w, w, True), (images(LAST), torch.randn(4))),
    "batch norm eval": (lambda x, m, v: F.batch_norm(x, m.detach(), v.detach()), (images(), torch.randn(4), torch.rand(4))),
    "layer norm": (lambda x, w: F.layer_norm(x, (8,), w), (torch.randn(3, 8), torch.randn(8))),
    "layer norm half": (lambda x, w: F.layer_norm(x, (8,), w), (torch.randn(3, 8).half(), torch.randn(8).half())),
    "group norm": (lambda x: F.group_norm(x, 2), (images(),)),
    "max pool": (lambda x: F.max_pool2d(x, 2), (images(LAST),)),
    "avg pool": (lambda x: F.avg_pool2d(x, 2), (images(LAST),)),
    "softmax": (lambda x: F.log_softmax(x.half(), -1, dtype=torch.float32), (torch.randn(3, 8),)),
    "attention": (F.scaled_dot_product_attention, tuple(torch.randn(2, 4, 16, 16) for _ in range(3))),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.tensor([1, 2, 0], device=x.device)), (torch.randn(3, 8),)),
    "dropout": (lambda x: F.dropout(x, 0.5, True), (torch.randn(3, 8),)),
    "matmul": (lambda a, b: a @ b, (torch.randn(2, 3, 4), torch.randn(4, 5))),
    "embedding": (lambda w: F.embedding(torch.tensor([1, 2], device=w.device), w), (torch.randn(5, 4),)),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (images(LAST),)),
    "cumsum sort": (lambda x: x.cumsum(0).sort(1)[0], (torch.randn(3, 8),)),
    "std": (lambda x: x.std(0) + x.var(0) + x.norm(dim=0), (torch.randn(3, 8),)),
}


def observed(program: Any, tensors: list[Any]) -> list[Any]:
    out = program(*tensors)
    return [facts(o, tensors) for o in (out, *gradients(out, tensors))]


def on_fakes(program: Any, inputs: tuple[torch.Tensor, ...], device: torch.device) -> list[Any]:
    mode = FakeMode()
    fakes = [mode.from_real(t) for t in inputs]
    with mode:
        moved = [f.to(device).detach().requires_grad_() for f in fakes]
        return observed(program, moved)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gpu_fakes_agree(name: str) -> None:
    program, inputs = PROGRAMS[name]
    device = CUDA if torch.cuda.is_available() else torch.device("cpu")
    real = observed(program, [t.to(device).detach().requires_grad_() for t in inputs])
    assert on_fakes(program, inputs, device) == real
