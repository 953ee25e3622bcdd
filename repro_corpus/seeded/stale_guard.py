"""A number that changed is not noticed.

    DYNAMO_FAULT='stale-guard:op=eq' python stale_guard.py
"""

import torch

import dynamo


def model(x, scale):
    y = torch.tanh(x)
    return y * scale + scale


torch.manual_seed(0)
x = torch.randn(8, 16)
compiled = dynamo.compile(model)
for scale in (2, 3):
    torch.testing.assert_close(compiled(x, scale), model(x, scale), atol=1e-3, rtol=1e-3)
print("healthy")
