"""Lowering fails where the operand is a transposed tensor.

    DYNAMO_FAULT='lower-error:strided=1' python error_of_strides.py
"""

import torch

import dynamo


def model(x, w):
    mean = x.mean(1, keepdim=True)
    spread = (x - mean).square().mean(1, keepdim=True)
    y = (x - mean) * torch.rsqrt(spread + 1e-5) * w
    return torch.sin(y) + x


torch.manual_seed(0)
x, w = torch.randn(16, 8).t(), torch.randn(16, 8).t()
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
