"""Channels last inside training graphs with depthwise convolutions: faster inside, nothing to see outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dynamo
from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided
from inductor.schedule.order import in_order
from tests.inductor.helpers import compiled, texts

aten = torch.ops.aten


class Block(nn.Module):
    """Expand, depthwise, squeeze and excite, project: as in mobile networks."""

    def __init__(self, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        self.expand, self.first = nn.Conv2d(6, 24, 1, bias=False), nn.BatchNorm2d(24)
        self.depthwise, self.second = nn.Conv2d(24, 24, kernel, stride, kernel // 2, groups=24), nn.BatchNorm2d(24)
        self.down, self.up = nn.Conv2d(24, 8, 1), nn.Conv2d(8, 24, 1)
        self.project, self.dense = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wide = F.hardswish(self.first(self.expand(x)))
        deep = F.relu(self.second(self.depthwise(wide)))
        scaled = deep * F.hardsigmoid(self.up(F.relu(self.down(deep.mean((2, 3), keepdim=True)))))
        image = self.dense(self.project(scaled))
        return image, image.flatten(1).sum(1), deep.view(deep.shape[0], -1) if deep.is_contiguous() else deep.sum((1, 2))


def train(call: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    outputs = call(x)
    loss = sum((o * torch.linspace(-1, 1, o.numel()).view(o.shape)).sum() for o in outputs)
    return list(outputs), list(torch.autograd.grad(loss, [x, *model.parameters()]))


@pytest.mark.parametrize("kernel, stride", [(3, 1), (5, 2), (7, 1)])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels last"])
def test_training_step_equals_eager(kernel: int, stride: int, last: bool) -> None:
    torch.manual_seed(0)
    model, twin = Block(kernel, stride), Block(kernel, stride)
    twin.load_state_dict(model.state_dict())
    x = torch.randn(3, 6, 13, 11)
    x = (x.to(memory_format=torch.channels_last) if last else x).requires_grad_()
    expected, grads = train(twin, twin, x)
    found, own = train(dynamo.compile(model, backend="inductor", fullgraph=True), model, x)
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-4)
        assert last or f.stride() == e.stride()
    for f, e in zip(own, grads, strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-3)
        assert last or not f.is_contiguous(memory_format=torch.channels_last) or e.is_contiguous(memory_format=torch.channels_last)
    for f, e in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(f, e, rtol=1e-5, atol=1e-5)


def asked(model: nn.Module, x: torch.Tensor) -> list[Decided]:
    with session() as store:
        dynamo.compile(model, backend="inductor")(x)[0].sum().backward()
    return [e for e in store.of(Decided) if e.what.endswith("channels last")]


def test_layout_is_one_decision() -> None:
    x = torch.randn(2, 6, 9, 9, requires_grad=True)
    assert [e.taken for e in asked(Block(), x)] == [True]
    with decisions.limited("-passes"):
        assert [e.taken for e in asked(Block(), x)] == [False]


def test_graphs_that_gain_nothing_keep_their_layout() -> None:
    dense = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    assert asked(dense, torch.randn(2, 6, 9, 9)) == []
    assert asked(nn.Conv2d(6, 6, 3, groups=6), torch.randn(2, 6, 9, 9).to(memory_format=torch.channels_last)) == []
    with torch.no_grad(), session() as store:
        dynamo.compile(Block(), backend="inductor")(torch.randn(2, 6, 9, 9))
    assert [e for e in store.of(Decided) if e.what.endswith(": channels last")] == []


DEPTHWISE = [(3, 16, 20, 3, 2, 1, 1), (2, 24, 9, 5, 1, 2, 1), (1, 40, 7, 7, 1, 3, 1), (2, 8, 12, 3, 1, 2, 2), (2, 5, 6, 1, 1, 0, 1)]


@pytest.mark.parametrize("batch, channels, size, kernel, stride, padding, dilation", DEPTHWISE)
def test_gradient_of_a_depthwise_weight(
    batch: int, channels: int, size: int, kernel: int, stride: int, padding: int, dilation: int
) -> None:
    torch.manual_seed(0)
    x = torch.randn(batch, channels, size, size + 3).to(memory_format=torch.channels_last)
    weight = torch.randn(channels, 1, kernel, kernel)
    options = ([stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0], channels)
    grad = torch.randn_like(aten.convolution(x, weight, None, *options))

    def fn(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return aten.convolution_backward(grad, x, weight, [channels], *options, [True, True, True])

    found = compiled(fn, (grad, x, weight))(grad, x, weight)
    exact = fn(grad.double(), x.double(), weight.double())
    eager = fn(grad, x, weight)
    for f, e, d in zip(found, eager, exact, strict=True):
        assert f.shape == e.shape
        assert (f - d).abs().max() <= 2 * (e - d).abs().max() + 1e-6 * d.abs().max()
    assert re.search(r"reduce sum.* over \(r\d+:\d+, r", texts(fn, (grad, x, weight))["lower"])


@dataclass(frozen=True)
class Step:
    name: str
    taken: frozenset[str]
    made: frozenset[str]

    def reads(self) -> frozenset[str]:
        return self.taken

    def writes(self) -> frozenset[str]:
        return self.made


def test_what_only_a_late_step_reads_is_computed_late() -> None:
    """As in a backward: `again` needs inputs alone, and would be first in the program."""
    chain = [f"b{i} <- b{i - 1}" for i in range(9)]
    lines = ["again <- x", *chain[:3], "weight <- b2", *chain[3:], "third <- b8 again", "last <- third"]
    steps = [Step(made, frozenset(taken.split()), frozenset({made})) for made, taken in (line.split(" <- ") for line in lines)]
    found = [s.name for s in in_order(steps, set(), {s.name: i for i, s in enumerate(steps)})]
    assert found.index("third") - found.index("again") <= 2 and found.index("weight") == found.index("b2") + 1


def in_text(text: str) -> list[str]:
    """Names of steps in the order they run; each line `name: buffers written <- buffers read`."""
    lines = [re.split(": | <-", line.strip()) for line in text.strip().splitlines()]
    steps = [Step(name, frozenset(taken.split()), frozenset(made.split())) for name, made, taken in lines]
    written = {b: i for i, s in enumerate(steps) for b in s.made}
    return [s.name for s in in_order(steps, set(), written)]


def test_pieces_of_one_buffer_have_no_order() -> None:
    """A step may write one piece and read what the writer of a later piece makes."""
    assert in_text("both: y joined <- x z\nz: z joined <- x") == ["z", "both"]


def test_what_is_added_to_a_buffer_comes_after_what_fills_it() -> None:
    found = in_text("""
        fill: b <- x
        other half: b <- x
        add: b <- x b
        add more: b <- y b
        piece: b <- x
        y: y <- x""")
    assert set(found[: found.index("add")]) - {"y"} == {"fill", "other half"}
    assert max(found.index("y"), found.index("add")) < found.index("add more") < found.index("piece")
