"""What is printed for `exp` cuts its fraction off.

    DYNAMO_FAULT='lost-bits:op=exp' python lost_bits.py
"""

import torch

import dynamo


def model(x, w):
    gate = torch.sigmoid(w - x.mean(1, keepdim=True))
    z = torch.sin(x * gate)
    return (z + w).exp().sum(0) - gate.sum(0)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
