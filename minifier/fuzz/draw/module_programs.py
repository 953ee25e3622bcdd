"""A Hypothesis strategy for modules: layers of `torch.nn` one after the other, with branches, in training or not, with gradients.

Layers are drawn for the shape that the ones before give, so that every module runs. Plain choices come first.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

POINTWISE = (
    "nn.ReLU()", "nn.GELU()", "nn.SiLU()", "nn.Sigmoid()", "nn.Tanh()", "nn.LeakyReLU(0.1)", "nn.Softplus()", "nn.ELU()", "nn.Hardtanh()",
    "nn.Dropout(0.3)", "nn.Identity()", "nn.Softmax(-1)", "nn.LogSoftmax(-1)", "nn.Hardswish()", "nn.GELU('tanh')", "nn.Mish()",
)  # fmt: skip
# What a forward does between two layers; `x` is the value so far, `first` the value before all layers, of another shape maybe.
BETWEEN = (
    "x = x * 0.5 + 1", "x = x.sin()", "x = x.exp().clamp(max=10.0)", "x = x.abs().sqrt()", "x = torch.where(x > 0, x, -x)",
    "x = x - x.mean(-1, keepdim=True)", "x = x / (x.norm(dim=-1, keepdim=True) + 1e-3)", "x = x + first.sum()",
    "x = torch.maximum(x, x.flip(-1))", "x = x.cos() * x", "x = x.transpose(-1, -2).contiguous().transpose(-1, -2)",
    "x = x + torch.rand_like(x) if self.training else x", "x = x.masked_fill(x > 1, 0.25)", "self.calls += 1", "x = x * self.scale",
)  # fmt: skip
MODES = ("module.train()", "module.eval()")


@dataclass(frozen=True)
class Shape:
    """Of a value between layers: images (channels, height, width), else sequences (length, width). The batch stands before it."""

    sizes: tuple[int, ...]

    @property
    def is_image(self) -> bool:
        return len(self.sizes) == 3


class _Writer:
    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.layers: list[str] = []
        self.forward: list[str] = []

    def one_of(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(choices))

    def step(self, shape: Shape) -> Shape:
        """One layer, a branch around one, or a line of Python; the shape behind it."""
        form = self.draw(st.integers(0, 5))
        if form == 0:
            self.forward.append(self.one_of(BETWEEN))
            return shape
        text, after = self.sized(shape) if form >= 3 else (self.one_of(POINTWISE), shape)
        name = f"l{len(self.layers)}"
        self.layers.append(f"self.{name} = {text}")
        residual = after == shape and form == 5
        self.forward.append(f"x = x + self.{name}(x)" if residual else f"x = self.{name}(x)")
        return after

    def sized(self, shape: Shape) -> tuple[str, Shape]:
        """A layer that depends on the shape."""
        sizes = shape.sizes
        if not shape.is_image:
            width = sizes[-1]
            out = self.one_of((width, 4, 8, 17))
            return self.one_of(
                (
                    (f"nn.Linear({width}, {out})", Shape((*sizes[:-1], out))),
                    (f"nn.LayerNorm({width})", shape),
                    (f"nn.Linear({width}, {width}, bias=False)", shape),
                    (f"nn.RMSNorm({width})", shape),
                )
            )
        channels, height, width = sizes
        out = self.one_of((channels, 2, 4, 6))
        rows: list[tuple[str, Shape]] = [
            (f"nn.Conv2d({channels}, {out}, 3, padding=1)", Shape((out, height, width))),
            (f"nn.BatchNorm2d({channels})", shape),
            (f"nn.Conv2d({channels}, {out}, 1, bias=False)", Shape((out, height, width))),
            (f"nn.GroupNorm(1, {channels})", shape),
            (f"nn.Conv2d({channels}, {channels}, 3, padding=1, groups={channels})", shape),
        ]
        if min(height, width) >= 4:
            half = Shape((channels, height // 2, width // 2))
            rows += [("nn.MaxPool2d(2)", half), ("nn.AvgPool2d(2)", half)]
        return self.one_of(rows)


@st.composite
def module_programs(draw: st.DrawFn) -> str:
    """The text of a module with `def program(compile)`: results, gradients and buffers of a few calls."""
    writer = _Writer(draw)
    start = Shape(draw(st.sampled_from(((5, 8), (3, 16), (3, 8, 8), (2, 6, 5)))))
    shape = start
    for _ in range(draw(st.integers(1, 6))):
        shape = writer.step(shape)
    calls = draw(st.lists(st.tuples(st.sampled_from(MODES), st.sampled_from((2, 2, 1, 3))), min_size=1, max_size=2))
    runs = "\n".join(f"{mode}\nseen.append(step(module, compiled, torch.randn({batch}, *{start.sizes})))" for mode, batch in calls)
    return _TEXT.format(
        layers=textwrap.indent("\n".join(writer.layers) or "pass", "        "),
        forward=textwrap.indent("\n".join(writer.forward), "        "),
        runs=textwrap.indent(runs, "    "),
    )


_TEXT = """import torch
from torch import nn


class Module(nn.Module):
    scale = 2.0

    def __init__(self):
        super().__init__()
        self.calls = 0
{layers}

    def forward(self, x):
        first = x
{forward}
        return x


def step(module, compiled, x):
    module.zero_grad()
    x.requires_grad_()
    y = compiled(x)
    (y * y.detach().cos()).sum().backward()
    return y, x.grad, [p.grad for p in module.parameters()]


def program(compile):
    module = Module()
    compiled = compile(module)
    seen = []
{runs}
    return seen, module.calls, list(module.buffers())
"""
