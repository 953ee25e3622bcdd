"""Training with Adam inside the compiled function: as close to float64 as eager training, for real models."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.models.training import check_forward, check_training, without_kinks
from tests.models.zoo import Model, _timm, _torchvision, _transformers

BERT = {
    "vocab_size": 500,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
GPT2 = {"vocab_size": 500, "n_embd": 128, "n_layer": 4, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def _tokens() -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (), {"input_ids": torch.randint(0, 500, (2, 32))}


# Dropout would draw other numbers in float64 than in float32.
STEADY = [
    _transformers("BertModel", BERT, True, _tokens),
    _transformers("GPT2LMHeadModel", GPT2, True, _tokens),
    _timm("convnext_tiny", 64, True),
    _torchvision("vit_b_16", 32, True, image_size=32),
    _torchvision("mobilenet_v3_small", 64, True, batch=4, dropout=0.0),  # has kinks, which moved none of 32 runs
    without_kinks(_torchvision("resnet18", 64, True, batch=4)),
    without_kinks(_torchvision("densenet121", 64, True, batch=4)),
]
# The more values a batch has, the less its normalisation makes of a gradient that came or did not come through.
KINKED = [
    pytest.param(_torchvision("resnet18", 32, True, batch=8), 8, id="resnet18", marks=pytest.mark.slow),
    pytest.param(_torchvision("densenet121", 64, True, batch=16), 8, id="densenet121", marks=pytest.mark.slow),
]


LONG = ("vit_b_16", "densenet121")  # half a minute of a processor and more


def _marked(model: Model) -> Any:
    return pytest.param(model, id=model.name, marks=[pytest.mark.slow] if any(name in model.name for name in LONG) else [])


@pytest.mark.parametrize("model", [_marked(model) for model in STEADY])
def test_training_with_adam(model: Model) -> None:
    check_training(model)


@pytest.mark.parametrize(("model", "seeds"), KINKED)
def test_training_of_models_with_kinks(model: Model, seeds: int) -> None:
    check_training(model, seeds=seeds)


def test_resnext_forward() -> None:
    check_forward(_timm("resnext101_32x8d", 64, True))
