"""The sine of a transposed tensor is read in the wrong order.

    DYNAMO_FAULT='ignored-strides' python ignored_strides.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.sin(x.t())
    return y * w.t() + 1


torch.manual_seed(0)
x, w = torch.randn(8, 12), torch.randn(8, 12)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
