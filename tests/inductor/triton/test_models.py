"""Kernels of real models, forward and backward, compile for two kinds of GPUs without one; pointwise and row kernels spill nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor.targets.triton.comments import without_comments
from tests.gpu import models as measured
from tests.inductor.triton.pretend import kernel_files
from tests.inductor.triton.seam import compiled_for, registers_and_spills
from tests.models.zoo import MODELS, Model

CAPABILITIES = (80, 90)
QUICK = ("transformers BertModel",)  # the others are slow tests: a kernel takes a third of a second for each GPU
MAY_SPILL = ("column", "scan", "transpose")  # of kinds of kernels; the table chooses them for other reasons

ROWS = [
    pytest.param(m, id=m.name, marks=[] if m.name in QUICK else [pytest.mark.slow, pytest.mark.timeout(3000)])
    for m in MODELS
    if m.required or m.name in QUICK
]


def kind_of(text: str) -> str:
    """The kind of kernel, from the first line of its file: `k3: row, 16 x 32, 4 warps.`"""
    return text.partition(": ")[2].partition(",")[0]


@pytest.mark.parametrize("model", ROWS)
def test_kernels_of_a_training_step(model: Model, tmp_path: Path) -> None:
    torch.manual_seed(0)
    args, kwargs = model.inputs()
    check(kernel_files(model.make().train(), args, kwargs), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("is_training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", ["resnet18", "densenet121", "resnext101_32x8d", "bert"])
def test_kernels_of_measured_models(name: str, is_training: bool, tmp_path: Path) -> None:
    """At the sizes of the baselines."""
    torch.manual_seed(0)
    row = measured.MODELS[name]
    args = tuple(t.to(row.dtype) if t.is_floating_point() else t for t in row.inputs())
    with torch.set_grad_enabled(is_training):
        check(kernel_files(row.make().to(row.dtype).train(is_training), args, {}), tmp_path)


def check(files: list[str], folder: Path) -> None:
    """All compile for both kinds of GPUs, and those whose first choice has to keep its values in registers do."""
    texts = {without_comments(t): t for t in files}
    assert len(texts) > 3
    spilling, refused = [], []
    for text in texts.values():
        for capability in CAPABILITIES:
            kernel = compiled_for(text, capability, folder)
            if kernel is None:
                refused.append(text.partition("import torch")[0])
                continue
            registers, spills = registers_and_spills(kernel, folder)
            if spills and not kind_of(text).startswith(MAY_SPILL):
                spilling.append(f"sm_{capability}: {registers} registers, {spills} bytes spilled\n{text.partition('import torch')[0]}")
    assert refused == []
    assert spilling == []
