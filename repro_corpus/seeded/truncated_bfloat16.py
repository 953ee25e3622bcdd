"""`exp` of bfloat16 loses its fraction.

    DYNAMO_FAULT='truncated:op=exp,dtype=bfloat16' python truncated_bfloat16.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.exp(x.bfloat16() * 0.5)
    return y.float() + torch.exp(w)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
