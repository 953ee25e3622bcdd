"""A rewrite fails; without it, lowering would crash.

    DYNAMO_FAULT='passes-error:op=sin;lower-segfault:op=tanh' python crash_behind_error.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.tanh(x * w)
    return torch.sin(y) + y


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
