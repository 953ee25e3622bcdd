"""Kernels of real models, forward and backward, compile for two kinds of GPUs without one; pointwise and row kernels spill nothing."""

from __future__ import annotations

import pytest

from inductor.runtime.pool import cpus
from tests.inductor.triton.cubins import NAMES, Checked, files_of

QUICK = ("transformers BertModel",)  # the others are slow tests: a kernel takes a third of a second for each GPU
CHECKED = Checked()  # what one model has shown holds for the next


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=[pytest.mark.slow, pytest.mark.timeout(3000)]) for n in NAMES])
def test_kernels_compile_and_keep_their_values_in_registers(name: str) -> None:
    files = files_of(name)
    assert len(files) > 3
    before = len(CHECKED.wrong)
    CHECKED.add(files, cpus())
    assert CHECKED.wrong[before:] == []
