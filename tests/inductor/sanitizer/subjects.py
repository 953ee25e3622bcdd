"""Programs whose kernels are sanitised: operators one by one, models with their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

import dynamo
from dynamo.aot import aot_module
from inductor.backend import SPLITS, arrange, prepare

Make = Callable[[], tuple[Callable[..., Any], list[torch.Tensor]]]
Rand = torch.randn


def _indices(most: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, most, shape)


OPERATORS: dict[str, Make] = {
    "chain": lambda: (lambda x: F.gelu(x * 1.5 + 0.1).tanh() * x, [Rand(100, 101)]),
    "even length": lambda: (lambda x: x * 2 + 1, [Rand(4096)]),
    "odd length": lambda: (lambda x, y: x * y + 1, [Rand(3001), Rand(3001)]),
    "bias": lambda: (lambda x, b: (x + b).relu(), [Rand(40, 77), Rand(77)]),
    "softmax": lambda: (lambda x: torch.softmax(x * 2, -1) + 1, [Rand(30, 300)]),
    "softmax, odd rows": lambda: (lambda x: torch.softmax(x, -1), [Rand(8, 3001)]),
    "softmax, long rows": lambda: (lambda x: torch.softmax(x, -1), [Rand(140, 5003)]),
    "layer norm": lambda: (lambda x, w, b: F.layer_norm(x, (768,), w, b), [Rand(16, 768), Rand(768), Rand(768)]),
    "rms norm": lambda: (lambda x, w: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w, [Rand(51, 500), Rand(500)]),
    "group norm": lambda: (lambda x: F.group_norm(x, 4), [Rand(4, 32, 7, 7)]),
    "batch norm": lambda: (lambda x: F.batch_norm(x, None, None, training=True), [Rand(8, 12, 9, 9)]),
    "row sum": lambda: (lambda x: x.sum(-1), [Rand(101, 300)]),
    "short rows": lambda: (lambda x: x.sum(-1), [Rand(200, 8)]),
    "column sum": lambda: (lambda x: x.sum(0), [Rand(400, 300)]),
    "full reductions": lambda: (lambda x: (x.sum(), x.amax(), x.var()), [Rand(200, 101)]),
    "middle dim": lambda: (lambda x: x.mean(1), [Rand(9, 65, 33)]),
    "argmax": lambda: (lambda x: x.argmax(-1), [Rand(50, 999)]),
    "cumsum": lambda: (lambda x: x.cumsum(1) * 2, [Rand(10, 1000)]),
    "transpose": lambda: (lambda x: x.t().contiguous() + 1, [Rand(70, 101)]),
    "channels last": lambda: (lambda x: (x * 2).to(memory_format=torch.channels_last), [Rand(2, 35, 15, 15)]),
    "cat": lambda: (lambda x, y: torch.cat([x * 2, y.relu()], 1), [Rand(50, 33), Rand(50, 40)]),
    "pad": lambda: (lambda x: F.pad(x.exp(), (1, 2, 3, 4)), [Rand(25, 30)]),
    "pooling": lambda: (lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)), [Rand(2, 3, 29, 29)]),
    "upsample": lambda: (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), [Rand(1, 3, 13, 13)]),
    "embedding": lambda: (lambda w, i: F.embedding(i, w) * 2, [Rand(100, 17), _indices(100, 33)]),
    "gather": lambda: (lambda x, i: x.gather(1, i) + 1, [Rand(20, 30), _indices(30, 20, 11)]),
    "index_add": lambda: (lambda x, i, y: x.index_add(0, i, y), [Rand(50, 16), _indices(50, 400), Rand(400, 16)]),
    "scatter_add": lambda: (lambda x, i, y: x.scatter_add(1, i, y), [Rand(20, 30), _indices(30, 20, 300), Rand(20, 300)]),
    "index_put": lambda: (lambda x, i, y: x.index_put((i,), y, accumulate=True), [Rand(40, 9), _indices(40, 300), Rand(300, 9)]),
    "cross entropy": lambda: (lambda x, t: F.cross_entropy(x, t), [Rand(33, 501), _indices(501, 33)]),
    "in place": lambda: (lambda x: x.add_(1).mul_(2), [Rand(1001)]),
    "foreach": lambda: (lambda x, y, z: torch._foreach_add([x, y], [z, x]), [Rand(300), Rand(300), Rand(300)]),
    "flip and roll": lambda: (lambda x: x.flip(1).roll(3, 0) * 2, [Rand(31, 45)]),
    "tril": lambda: (lambda x: torch.tril(x) + 1, [Rand(45, 45)]),
    "where": lambda: (lambda x, y: torch.where(x > 0, x, y.t()), [Rand(40, 50), Rand(50, 40)]),
    "integers": lambda: (lambda x: (x * 3 + 1, x.sum(0)), [torch.randint(-99, 99, (41, 53))]),
    "bfloat16": lambda: (lambda x: torch.softmax(x.sin(), -1), [Rand(21, 515).bfloat16()]),
    "dropout": lambda: (lambda x: F.dropout(x, 0.3) * 2, [Rand(101, 33)]),
}


class Block(torch.nn.Module):
    """What residual networks are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(5, 7, 3, padding=1, bias=False), torch.nn.Conv2d(7, 5, 1)
        self.norm = torch.nn.BatchNorm2d(7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(torch.relu(x + self.second(torch.relu(self.norm(self.first(x))))), 2).mean((2, 3))


class Layer(torch.nn.Module):
    """What language models are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 24)
        self.attention = torch.nn.MultiheadAttention(24, 4, batch_first=True)
        self.first, self.second = torch.nn.Linear(24, 60), torch.nn.Linear(60, 24)
        self.norm, self.end = torch.nn.LayerNorm(24), torch.nn.LayerNorm(24)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        y = self.norm(x)
        mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        x = x + self.second(F.gelu(self.first(self.end(x))))
        return F.cross_entropy((x @ self.words.weight.t()).flatten(0, 1), targets.flatten())


class Gates(torch.nn.Module):
    """A recurrent cell and a mixture."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.mix = torch.nn.LSTMCell(11, 13), torch.nn.Linear(13, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = c = x.new_zeros(x.shape[0], 13)
        for k in range(2):
            h, c = self.cell(x[:, k], (h, c))
        return (torch.softmax(self.mix(h), -1).amax(-1) * torch.sigmoid(c).prod(-1)).log().mean()


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], list[torch.Tensor]]]] = {
    "block": (Block, lambda: [Rand(3, 5, 11, 11)]),
    "layer": (Layer, lambda: [_indices(50, 3, 17), _indices(50, 3, 17)]),
    "gates": (Gates, lambda: [Rand(19, 2, 11)]),
}
NAMES = (*OPERATORS, *MODELS)


@dataclass
class Taken:
    """ATen graphs of a program, each with what it was called with."""

    graphs: list[tuple[torch.fx.GraphModule, list[Any]]] = field(default_factory=list)

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool) -> Callable[..., Any]:
        def run(values: list[Any]) -> Sequence[Any]:
            self.graphs.append((gm, [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values]))
            found = gm(*values)
            return tuple(found) if isinstance(found, (list, tuple)) else (found,)

        return run

    def backend(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return aot_module(
            gm, inputs, decompositions=SPLITS, fw_compiler=self.compile, bw_compiler=self.compile, prepare=prepare, arrange=arrange
        )


def graphs_of(name: str) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The ATen graphs of a program, forward and for floats backward, and what they are called with."""
    torch.manual_seed(len(name))
    taken = Taken()
    if name in OPERATORS:
        fn, given = OPERATORS[name]()
    else:
        make, inputs = MODELS[name]
        fn, given = make(), inputs()
    leaves = [g.requires_grad_() for g in given if g.is_floating_point() and name != "in place"]
    found = dynamo.compile(fn, backend=taken.backend)(*given)
    ends = [o for o in (found if isinstance(found, (tuple, list)) else [found]) if o.requires_grad]
    if (leaves or isinstance(fn, torch.nn.Module)) and ends:
        torch.autograd.backward(ends, [torch.ones_like(e) for e in ends])
    dynamo.reset()
    return taken.graphs
