"""Inverse roots above a half become NaN.

    DYNAMO_FAULT='nan:op=rsqrt' python nan_rsqrt.py
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
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
