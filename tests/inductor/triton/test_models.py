"""Kernels of real models, forward and backward, compile for two kinds of GPUs without one; pointwise and row kernels spill nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor.targets.triton.comments import without_comments
from tests.inductor.triton.absent import kernel_files
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
    texts = {without_comments(t): t for t in kernel_files(model.make().train(), args, kwargs)}
    assert len(texts) > 10
    spilling, refused = [], []
    for text in texts.values():
        for capability in CAPABILITIES:
            kernel = compiled_for(text, capability, tmp_path)
            if kernel is None:
                refused.append(kind_of(text))
                continue
            registers, spills = registers_and_spills(kernel, tmp_path)
            if spills and not kind_of(text).startswith(MAY_SPILL):
                spilling.append(f"sm_{capability}: {registers} registers, {spills} bytes spilled\n{text.partition('import torch')[0]}")
    assert refused == []
    assert spilling == []
