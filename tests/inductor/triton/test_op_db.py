"""The first sample of every operator of torch's test database through Triton's interpreter, with the gradients of float32."""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.inductor import sweep
from tests.inductor.triton.seam import interpreted, refusals

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
CHUNKS = 16  # operators are dealt out to this many tests, for xdist to share
ALLOWED = {  # parts of an operator that are ATen calls, and which dtypes that may happen for
    "a loop without iterations": DTYPES,
    "no atomic addition of torch.bfloat16": (torch.bfloat16,),
    "no atomic addition of torch.bool": (torch.bool,),
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_operators(chunk: int) -> None:
    """Equal to eager, and what is made of loops has a Triton kernel."""
    wrong = []
    with interpreted(), sweep.samples_unseeded():
        for op in op_db[chunk::CHUNKS]:
            for dtype in DTYPES:
                if op.supports_dtype(dtype, "cpu"):
                    why, store = sweep.draw(op, dtype, count=1).check()
                    refused = [r for r in refusals(store) if dtype not in ALLOWED.get(r, ())]
                    wrong += [f"{sweep.name_of(op)} {dtype}: {why or refused}"] if why or refused else []
    assert wrong == []
