"""Compiled dropout draws a number too many.

    DYNAMO_FAULT='extra-draw:op=bernoulli' python rng_skew_forward.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.nn.functional.dropout(x + w, 0.5)
    return torch.sigmoid(y) * x


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
def step(fn):
    torch.manual_seed(1)
    return fn(x, w)


torch.testing.assert_close(step(dynamo.compile(model)), step(model), atol=1e-3, rtol=1e-3)
print("healthy")
