"""The sine is a cosine in tensors of more than 1,024 elements.

    DYNAMO_FAULT='wrong-lowering:numel=1024' python wrong_above_1024.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(64, 48), torch.randn(64, 48)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
