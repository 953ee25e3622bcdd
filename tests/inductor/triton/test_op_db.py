"""The first sample of every operator of torch's test database through Triton's interpreter: a slice of them, or all (slow)."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.inductor import sweep
from tests.inductor.triton.seam import interpreted, refusals

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
CHUNKS = 12
QUICK = frozenset(
    """
    add div exp pow clamp where isclose round floor_divide remainder lgamma sum mean amax argmin any var softmax cumsum gather
    index_add cat flip bitwise_and logical_not signbit nn.functional.gelu nn.functional.layer_norm nn.functional.embedding
    """.split()
)


def check(ops: list, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sweep, "SAMPLES", 1)
    wrong, right = [], 0
    with interpreted(), sweep.samples_unseeded():
        for op in ops:
            for dtype in DTYPES:
                if op.supports_dtype(dtype, "cpu"):
                    case = sweep.draw(op, dtype)
                    case.gradients = False
                    why, store = case.check()
                    failed = [r for r in refusals(store) if r.startswith("Triton refused")]
                    wrong += [f"{sweep.name_of(op)} {dtype}: {why or failed}"] if why or failed else []
                    right += not why
    assert wrong == []
    return right


def test_some_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [op for op in op_db if op.name in QUICK and not op.variant_test_name]
    assert check(ops, monkeypatch) > 60


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_operators(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(op_db[chunk::CHUNKS], monkeypatch)
