"""The compiled sine crashes when it runs.

    DYNAMO_FAULT='run-segfault' python run_segfault.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
