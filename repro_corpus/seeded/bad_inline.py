"""An expression that is put where it is read loses the sine.

    DYNAMO_FAULT='bad-inline' python bad_inline.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.sin(x + 1)
    z = y * w
    return z.abs() - 1


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
