"""A difference is captured as a sum.

    DYNAMO_FAULT='wrong-capture' python wrong_capture.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.tanh(x) * w
    return (y - x).mean(0)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
