"""Softmax is a hundredth too large.

    DYNAMO_FAULT='scaled:op=_softmax' python aten_wrong_lowering.py
"""

import torch

import dynamo


def model(x, w):
    return torch.softmax(x * w, 1) + w


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
