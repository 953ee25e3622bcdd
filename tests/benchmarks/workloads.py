"""What the compiler is measured on. A row makes its inputs and the function that both compilers get.

`make()` returns (function, run): `run(compiled)` does one call as users do it; for training rows that includes `backward()`
or is the whole step. Rows without gradients expect to run where they are off. Sizes are those of the published baselines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.benchmarks.bench_inductor import CASES
from tests.models import torchvision_ops
from tests.models.zoo import awake

Function = Callable[..., Any]
Prepared = tuple[Function, Callable[[Function], Any]]


@dataclass(frozen=True)
class Workload:
    """One row. `kind` is call (no gradients), grad (forward and backward), eval (a model) or train (a step with Adam)."""

    name: str
    kind: str
    make: Callable[[], Prepared]

    @property
    def has_gradients(self) -> bool:
        return self.kind in ("grad", "train")


def _call(fn: Function, inputs: Callable[[], tuple[torch.Tensor, ...]]) -> Callable[[], Prepared]:
    def make() -> Prepared:
        values = inputs()

        return fn, lambda compiled: compiled(*values)

    return make


def _grad(fn: Function, inputs: Callable[[], tuple[torch.Tensor, ...]], kept: int = 0) -> Callable[[], Prepared]:
    """Forward and backward; the last `kept` inputs (indices, say) get no gradient."""

    def make() -> Prepared:
        values = inputs()
        leaves = [v.requires_grad_() for v in values[: len(values) - kept]]

        def run(compiled: Function) -> Any:
            for leaf in leaves:
                leaf.grad = None
            compiled(*values).sum().backward()

        return fn, run

    return make


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def _mlp() -> Prepared:
    model = nn.Sequential(*(Block(128) for _ in range(10)))
    x = torch.randn(64, 128)

    def run(compiled: Function) -> Any:
        model.zero_grad()
        compiled(x).square().mean().backward()

    return model, run


def _adam() -> Prepared:
    parameters = [nn.Parameter(torch.randn(64, 64)) for _ in range(200)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    optimizer.step()
    return optimizer.step, lambda compiled: compiled()


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def _evaluate(model: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]]) -> Callable[[], Prepared]:
    def make() -> Prepared:
        torchvision_ops.declare()
        module, values = model().eval(), inputs()

        return module, lambda compiled: compiled(*values)

    return make


def _train(model: Callable[[], nn.Module], inputs: Callable[[], tuple[Any, ...]]) -> Callable[[], Prepared]:
    """A whole step: gradients cleared, forward, loss, backward, Adam."""

    def make() -> Prepared:
        torchvision_ops.declare()
        module, values = awake(model().train()), inputs()
        optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)

        def step(*values: Any) -> torch.Tensor:
            optimizer.zero_grad()
            loss = _first(module(*values)).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, lambda compiled: compiled(*values)

    return make


def _first(output: Any) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output[0]


def _torchvision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        from torchvision import models

        return models.get_model(name, weights=None)

    return make


def _timm(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False)

    return make


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(num_hidden_layers=4, attn_implementation="eager", hidden_dropout_prob=0.1))


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(n_layer=4, use_cache=False))


def _images(count: int, size: int) -> Callable[[], tuple[torch.Tensor]]:
    return lambda: (torch.randn(count, 3, size, size),)


def _tokens(count: int, length: int) -> Callable[[], tuple[torch.Tensor]]:
    return lambda: (torch.randint(0, 30000, (count, length)),)


def _small_grad() -> Callable[[], Prepared]:
    return _grad(lambda x, y: torch.sin(x) + torch.cos(y), lambda: (torch.randn(10, 10), torch.randn(10, 10)))


WORKLOADS = (
    *(Workload(case.name, "call", _call(case.fn, case.inputs)) for case in CASES if "bwd" not in case.name),
    Workload("sin+cos 10x10 with gradients", "grad", _small_grad()),
    Workload("rms_norm with gradients", "grad", _grad(_rms_norm, lambda: (torch.randn(2048, 1024), torch.randn(1024)))),
    Workload(
        "embedding_bag with gradients",
        "grad",
        _grad(
            lambda w, i: F.embedding_bag(i, w, mode="mean"),
            lambda: (torch.randn(10000, 128), torch.randint(0, 10000, (256, 20))),
            kept=1,
        ),
    ),
    Workload("mlp of 10 blocks with gradients", "grad", _mlp),
    Workload("Adam over 200 tensors", "grad", _adam),
    Workload("resnet18 eval", "eval", _evaluate(_torchvision("resnet18"), _images(4, 128))),
    Workload("resnet18 train", "train", _train(_torchvision("resnet18"), _images(4, 128))),
    Workload("bert eval", "eval", _evaluate(_bert, _tokens(2, 128))),
    Workload("bert train", "train", _train(_bert, _tokens(2, 128))),
    Workload("gpt2 eval", "eval", _evaluate(_gpt2, _tokens(2, 128))),
    Workload("gpt2 train", "train", _train(_gpt2, _tokens(2, 128))),
    Workload("mobilenet_v3_small eval", "eval", _evaluate(_torchvision("mobilenet_v3_small"), _images(4, 128))),
    Workload("mobilenet_v3_small train", "train", _train(_torchvision("mobilenet_v3_small"), _images(4, 128))),
    Workload("densenet121 eval", "eval", _evaluate(_torchvision("densenet121"), _images(2, 128))),
    Workload("densenet121 train", "train", _train(_torchvision("densenet121"), _images(2, 128))),
    Workload("vit_b_16 eval", "eval", _evaluate(_torchvision("vit_b_16"), _images(1, 224))),
    Workload("vit_b_16 train", "train", _train(_torchvision("vit_b_16"), _images(1, 224))),
    Workload("convnext_tiny eval", "eval", _evaluate(_timm("convnext_tiny"), _images(1, 224))),
    Workload("convnext_tiny train", "train", _train(_timm("convnext_tiny"), _images(1, 224))),
    Workload("resnext101_32x8d eval", "eval", _evaluate(_timm("resnext101_32x8d"), _images(1, 224))),
)


def named(name: str) -> Workload:
    """The row of this name. Raises KeyError."""
    return {w.name: w for w in WORKLOADS}[name]
