"""Real models, captured as one graph: forward in evaluation mode, forward and backward in training mode."""

from __future__ import annotations

import pytest

from tests.models.running import capture_forward, capture_training
from tests.models.zoo import MODELS, Model

ROWS = [pytest.param(model, id=model.name, marks=[] if model.required else pytest.mark.slow) for model in MODELS]


@pytest.mark.parametrize("model", ROWS)
def test_forward(model: Model) -> None:
    assert capture_forward(model) == 1


@pytest.mark.parametrize("model", ROWS)
def test_training_step(model: Model) -> None:
    assert capture_training(model) == 1
