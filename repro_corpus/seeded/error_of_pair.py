"""Lowering the sine fails where its operand is a cosine.

    DYNAMO_FAULT='lower-error:reads=cos' python error_of_pair.py
"""

import torch

import dynamo


def model(x, w):
    a = torch.sin(x) + w
    b = torch.cos(a * 0.5)
    c = torch.sin(b)
    return (c - a).tanh().sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
