"""Convolutions as one call with what follows: which are fused, and that the new graph computes what the old one does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dynamo
from dynamo import decisions
from inductor.passes import rewrite
from tests.inductor.triton.pretend import on_cuda

aten = torch.ops.aten
RELU, ADDED = aten.cudnn_convolution_relu.default, aten.cudnn_convolution_add_relu.default


class Block(nn.Module):
    """A block of a residual network; `wide` also takes its input through a convolution."""

    def __init__(self, channels: int = 8, wide: int = 0, groups: int = 1, bias: bool = False) -> None:
        super().__init__()
        out = wide or channels
        self.conv1, self.norm1 = nn.Conv2d(channels, out, 3, 2 if wide else 1, 1, bias=bias), nn.BatchNorm2d(out, eps=1e-3)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, padding=1, groups=groups, bias=bias), nn.BatchNorm2d(out)
        self.down = nn.Sequential(nn.Conv2d(channels, out, 1, 2, bias=False), nn.BatchNorm2d(out)) if wide else nn.Identity()
        for norm in [m for m in self.modules() if isinstance(m, nn.BatchNorm2d)]:
            for t in (norm.running_var, norm.weight):
                assert t is not None
                nn.init.uniform_(t, 0.5, 2)
            nn.init.normal_(norm.running_mean)  # type: ignore[arg-type]
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.norm2(self.conv2(self.norm1(self.conv1(x)).relu())) + self.down(x)).relu()


class Mean(nn.Module):
    """What is seen of an image: one that the caller gets is in eager's layout, and stays apart."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


class Reference(torch.fx.Interpreter):
    """Runs a graph for a GPU on the processor."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is RELU:
            x, weight, bias, stride, padding, dilation, groups = args
            return torch.conv2d(x, weight, bias, stride, padding, dilation, groups).relu()
        if target is ADDED:
            x, weight, z, alpha, bias, stride, padding, dilation, groups = args
            return (torch.conv2d(x, weight, bias, stride, padding, dilation, groups) + alpha * z).relu()
        return super().call_function(target, args, kwargs)


def fused(model: nn.Module, x: torch.Tensor) -> tuple[list[Any], Reference, Reference]:
    """The calls of cuDNN that were made, and both graphs."""
    graphs: list[torch.fx.Graph] = []
    fuse = rewrite.fuse_convolutions

    def watched(graph: torch.fx.Graph, static: Any) -> None:
        graphs.append(copied(graph))
        fuse(graph, static)
        graphs.append(copied(graph))

    with pytest.MonkeyPatch.context() as patch, on_cuda(), torch.no_grad():
        patch.setattr(rewrite, "fuse_convolutions", watched)
        dynamo.compile(model, backend="inductor", fullgraph=True)(x)
    before, after = graphs
    calls = [n.target for n in after.nodes if n.target in (RELU, ADDED)]
    return calls, Reference(torch.fx.GraphModule({}, before)), Reference(torch.fx.GraphModule({}, after))


def copied(graph: torch.fx.Graph) -> torch.fx.Graph:
    new = torch.fx.Graph()
    new.output(new.graph_copy(graph, {}))
    return new


def check(model: nn.Module, x: torch.Tensor) -> list[Any]:
    calls, before, after = fused(nn.Sequential(model, Mean()).eval(), x)
    torch.manual_seed(1)
    given = []
    for node in before.module.graph.find_nodes(op="placeholder"):  # type: ignore[union-attr]
        val = node.meta["val"]
        made = torch.rand if val.dim() < 4 else torch.randn  # variances are positive
        given.append(made(tuple(val.shape), dtype=val.dtype))
    with torch.no_grad():
        for found, expected in zip(after.run(*given), before.run(*given), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    return calls


IMAGE = torch.randn(2, 8, 16, 16).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("groups", [1, 4])
def test_a_block(groups: int) -> None:
    assert check(Block(groups=groups), IMAGE) == [RELU, ADDED]


def test_the_larger_of_two_convolutions_that_are_added() -> None:
    assert check(Block(wide=16), IMAGE) == [RELU, ADDED]


def test_blocks_in_a_row() -> None:
    assert check(nn.Sequential(Block(), Block(wide=16), Block(16)), IMAGE) == [RELU, ADDED] * 3


@pytest.mark.parametrize(
    "model",
    [Block(bias=True), nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.SiLU()), nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())],
    ids=["bias", "silu", "no norm"],
)
def test_others_stay(model: nn.Module) -> None:
    assert check(model, IMAGE) == []


def test_filters_of_one_pixel_that_are_large() -> None:
    model = nn.Sequential(nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 8, 1))
    assert check(model, torch.randn(1, 64, 4, 4)) == []
    assert check(model, torch.randn(1, 64, 64, 64)) == [RELU]


def test_weights_that_are_computed_stay() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.norm = nn.Parameter(torch.randn(8, 8, 3, 3)), nn.BatchNorm2d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(torch.conv2d(x, self.weight * 2)).relu()

    assert check(Scaled(), IMAGE) == []


def test_each_is_a_decision() -> None:
    with decisions.limited("-passes"):
        assert check(Block(), IMAGE) == []
