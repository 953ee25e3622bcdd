"""A difference is printed as a sum.

    DYNAMO_FAULT='wrong-text' python wrong_text.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
