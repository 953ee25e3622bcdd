"""Lowering fails for tensors of more than 1,024 elements.

    DYNAMO_FAULT='lower-error:numel=1024' python error_above_1024.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(60, 50), torch.randn(60, 50)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
