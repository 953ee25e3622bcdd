"""The sine is off in tensors of more than 100,000 elements.

    DYNAMO_FAULT='scaled:numel=100000' python wrong_above_100000.py
"""

import torch

import dynamo


def model(x, w):
    y = x.relu() * w
    return torch.sin(y) + 1


torch.manual_seed(0)
x, w = torch.randn(16, 128, 64), torch.randn(16, 128, 64)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
