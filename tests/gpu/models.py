"""Models as they are measured on a GPU: sizes of the baselines, random weights. Plain functions, for machines without pytest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tests.models import torchvision_ops
from tests.models.zoo import awake

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Measured:
    """`make` builds the module in float32, `inputs` its arguments, both on the processor. `dtype` is what both are cast to.

    `targets` are the speeds over eager that evaluation and training are held to; None where there is none.
    """

    make: Callable[[], nn.Module]
    inputs: Callable[[], Inputs]
    dtype: torch.dtype = torch.float32
    targets: tuple[float | None, float | None] = (None, None)


def torchvision(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        torchvision_ops.declare()
        from torchvision import models

        return awake(models.get_model(name, weights=None))

    return make


def timm(name: str) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        torchvision_ops.declare()
        import timm

        return awake(timm.create_model(name, pretrained=False))

    return make


def transformer(model: str, **settings: Any) -> Callable[[], nn.Module]:
    """Dropout is off: it would draw other numbers in float64 than in float32."""

    def make() -> nn.Module:
        torchvision_ops.declare()
        import transformers

        cls = getattr(transformers, model)
        return awake(cls(cls.config_class(**settings)))

    return make


class Lstm(nn.Module):
    """Two layers over embedded tokens, and what comes next."""

    def __init__(self, words: int = 1000, width: int = 256) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def block(inner: int, outer: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inner, outer, 3, padding=1), nn.GroupNorm(8, outer), nn.SiLU())


class UNet(nn.Module):
    """Down, up with transposed convolutions, and what was seen on the way down beside what comes back up."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.enter, self.down = block(3, width), block(width, 2 * width)
        self.middle = block(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Sequential(block(2 * width, width), nn.Conv2d(width, 3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.enter(x)
        deep = self.middle(self.down(nn.functional.max_pool2d(seen, 2)))
        return self.leave(torch.cat([self.up(deep), seen], 1))


def images(count: int, size: int) -> Callable[[], Inputs]:
    return lambda: (torch.randn(count, 3, size, size),)


def tokens(count: int, length: int, words: int) -> Callable[[], Inputs]:
    return lambda: (torch.randint(0, words, (count, length)),)


BERT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT2 = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}

MODELS: dict[str, Measured] = {
    "densenet121": Measured(torchvision("densenet121"), images(16, 128), targets=(4.5, 5.0)),
    "resnet18": Measured(torchvision("resnet18"), images(16, 128), targets=(3.0, 3.0)),
    "resnext101_32x8d": Measured(timm("resnext101_32x8d"), images(16, 224), targets=(2.0, None)),
    "bert": Measured(transformer("BertModel", **BERT), tokens(16, 512, 30000), torch.bfloat16, (1.15, None)),
    "resnet50": Measured(torchvision("resnet50"), images(16, 224)),
    "mobilenet_v3_large": Measured(torchvision("mobilenet_v3_large"), images(16, 224)),
    "efficientnet_b0": Measured(timm("efficientnet_b0"), images(16, 224)),
    "convnext_tiny": Measured(timm("convnext_tiny"), images(16, 224)),
    "vit_b_16": Measured(torchvision("vit_b_16"), images(16, 224), torch.bfloat16),
    "gpt2": Measured(transformer("GPT2LMHeadModel", **GPT2), tokens(4, 512, 50000), torch.bfloat16),
    "lstm": Measured(Lstm, tokens(16, 64, 1000)),
    "unet": Measured(UNet, images(8, 128)),
}


def first(output: Any) -> torch.Tensor:
    """The tensor that a model's result begins with."""
    return output if isinstance(output, torch.Tensor) else output[0]
