"""Sines become NaN, and `tanh` is off by a hundredth.

    DYNAMO_FAULT='nan:op=sin;scaled:op=tanh' python two_wrongs.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.sin(x + w)
    z = torch.tanh(w)
    return y, z * 3


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
for found, right in zip(dynamo.compile(model)(x, w), model(x, w)):
    torch.testing.assert_close(found, right, atol=1e-3, rtol=1e-3)
print("healthy")
