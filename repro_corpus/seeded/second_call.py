"""From the second call on, the compiled sine is that of the first call.

    DYNAMO_FAULT='second-call' python second_call.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.sin(x * w)
    return y + w.abs()


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
compiled = dynamo.compile(model)
for _ in range(3):
    torch.testing.assert_close(compiled(x, w), model(x, w), atol=1e-3, rtol=1e-3)
    x = x + 1
print("healthy")
