"""Lowering the sine takes all the memory.

    DYNAMO_FAULT='lower-memory' python lower_memory.py
"""

import torch

import dynamo


def model(x, w):
    mean = x.mean(1, keepdim=True)
    spread = (x - mean).square().mean(1, keepdim=True)
    y = (x - mean) * torch.rsqrt(spread + 1e-5) * w
    return torch.sin(y) + x


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
