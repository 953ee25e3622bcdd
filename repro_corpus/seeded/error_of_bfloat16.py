"""Lowering fails for bfloat16.

    DYNAMO_FAULT='lower-error:dtype=bfloat16' python error_of_bfloat16.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(8, 16).bfloat16(), torch.randn(8, 16).bfloat16()
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
