"""A result is written over running sums that are still read, in another order.

    DYNAMO_FAULT='alias-clobber' python alias_clobber.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * 0.5).cumsum(0)
    z = y.flip(0) + w
    return z.tanh()


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
