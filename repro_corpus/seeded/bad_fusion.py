"""A row is read in the loop that still computes it.

    DYNAMO_FAULT='bad-fusion:op=' python bad_fusion.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    largest = y.amax(1, keepdim=True)
    return (y - largest.roll(1, 0)).exp() + 1


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
