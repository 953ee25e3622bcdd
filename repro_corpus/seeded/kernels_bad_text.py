"""What is printed for the sine is no C, so the C compiler refuses it.

    DYNAMO_FAULT='bad-text' python kernels_bad_text.py
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
