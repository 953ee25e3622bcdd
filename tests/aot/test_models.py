"""Whole models in training: outputs, gradients and batch-norm statistics against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.aot.compare import check, moved
from tests.aot.test_cases import DEVICES
from tests.models.torchvision_ops import declare

declare()
import torchvision  # noqa: E402


class Block(torch.nn.Module):
    """One BERT-like encoder layer with a language-model loss."""

    def __init__(self, size: int = 32, heads: int = 4, words: int = 50) -> None:
        super().__init__()
        self.heads = heads
        self.words = torch.nn.Embedding(words, size)
        self.places = torch.nn.Embedding(16, size)
        self.norm1, self.norm2 = torch.nn.LayerNorm(size), torch.nn.LayerNorm(size)
        self.qkv, self.out = torch.nn.Linear(size, 3 * size), torch.nn.Linear(size, size)
        self.up, self.down = torch.nn.Linear(size, 4 * size), torch.nn.Linear(4 * size, size)
        self.register_buffer("position", torch.arange(6))

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.norm1(self.words(ids) + self.places(self.position))
        x = F.dropout(x, 0.1, True)
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.reshape(2, 6, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        weights = F.dropout((q @ k.transpose(-1, -2) / 8).softmax(-1), 0.1, True)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(2, 6, -1))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        logits = x @ self.words.weight.t()
        return F.cross_entropy(logits.view(12, -1), ids.view(-1)), logits


@pytest.mark.parametrize("strategy", ["min_cut", "save_all"])
def test_transformer_block(strategy: str) -> None:
    torch.manual_seed(0)
    check(Block(), torch.randint(0, 50, (2, 6)), partition=strategy)


@pytest.mark.parametrize("strategy", ["min_cut", "save_all"])
def test_resnet18_training(strategy: str) -> None:
    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None, num_classes=10).train()
    check(model, torch.randn(4, 3, 32, 32), partition=strategy)
    assert int(model.bn1.num_batches_tracked) == 2


def test_resnet18_eval() -> None:
    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None, num_classes=10).eval()
    with torch.no_grad():
        check(model, torch.randn(2, 3, 32, 32))


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "convnext_tiny", "densenet121"])
def test_vision_models_training(name: str) -> None:
    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None, num_classes=10).train()
    check(model, torch.randn(2, 3, 64, 64), calls=1)


class Small(torch.nn.Module):
    """Convolution, batch norm and a loss, for every device and under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.out = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.adaptive_avg_pool2d(self.norm(self.conv(x)).relu(), 1).flatten(1)
        return F.cross_entropy(self.out(h).float(), torch.zeros(2, dtype=torch.int64, device=x.device))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_small_network_on_every_device(device: str, half: bool) -> None:
    torch.manual_seed(0)
    with torch.autocast(device, torch.bfloat16, enabled=half):
        check(Small().to(device), *moved((torch.randn(2, 3, 16, 16),), device))
