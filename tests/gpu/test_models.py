"""Models on the device: evaluation, and training with Adam inside the compiled function, as close to float64 as eager is there."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

import dynamo
from tests.gpu import models
from tests.models.running import tensors
from tests.models.test_training import KINKED, STEADY
from tests.models.training import check_forward, check_training, distance
from tests.models.zoo import MODELS, Model

pytestmark = pytest.mark.gpu

WORSE = 2.0  # a 16-bit result may be this much further from float64 than eager's


@pytest.fixture(autouse=True)
def _float32_products() -> Iterator[None]:
    """Tensor cores round operands to 10 bits, and two libraries' ways to do so differ by more than the kernels around them."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def on_device(model: Model) -> Model:
    def inputs() -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = model.inputs()
        return tuple(moved(a) for a in args), {k: moved(v) for k, v in kwargs.items()}

    return replace(model, make=lambda: model.make().cuda(), inputs=inputs)


def moved(value: Any) -> Any:
    return value.cuda() if isinstance(value, torch.Tensor) else value


OWN = [
    Model("lstm", lambda: models.Lstm(words=100, width=64), lambda: ((torch.randint(0, 100, (4, 12)),), {}), True),
    Model("unet", models.UNet, lambda: ((torch.randn(2, 3, 32, 32),), {}), True),
]
EVALUATED = [pytest.param(m, id=m.name, marks=[] if m.required else pytest.mark.slow) for m in (*OWN, *MODELS)]


@pytest.mark.parametrize("model", EVALUATED)
def test_evaluation(model: Model) -> None:
    check_forward(on_device(model))


@pytest.mark.parametrize("model", [*OWN, *STEADY], ids=lambda model: model.name)
def test_training(model: Model) -> None:
    check_training(on_device(model))


@pytest.mark.parametrize(("model", "seeds"), KINKED)
def test_training_of_models_with_kinks(model: Model, seeds: int) -> None:
    check_training(on_device(model), seeds=seeds)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit_b_16"])
def test_evaluation_in_bfloat16(name: str) -> None:
    torch.manual_seed(0)
    row = models.MODELS[name]
    module = row.make().cuda().eval()
    given = tuple(t[:2].cuda() for t in row.inputs())
    narrow = copy.deepcopy(module).to(torch.bfloat16)
    cast = tuple(t.to(torch.bfloat16) if t.is_floating_point() else t for t in given)
    with torch.no_grad():
        exact = copy.deepcopy(narrow).double()(*(t.double() if t.is_floating_point() else t for t in cast))
        reference = [t.double() for t in tensors(exact)]
        found = {"eager": narrow(*cast), "ours": dynamo.compile(narrow, backend="inductor")(*cast)}
    off = {who: distance([t.double() for t in tensors(out)], reference) for who, out in found.items()}
    assert off["ours"] <= WORSE * off["eager"], off
