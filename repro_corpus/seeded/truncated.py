"""`tanh` loses its fraction.

    DYNAMO_FAULT='truncated:op=tanh' python truncated.py
"""

import torch

import dynamo


def model(x, w):
    waves = torch.sin(x * w)
    total = waves.sum(1, keepdim=True)
    largest = (x + w).amax(1, keepdim=True)
    return (waves / total + largest).tanh()


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
