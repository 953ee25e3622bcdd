"""Lowering fails at the sine; behind it waits another failure, at `tanh`.

    DYNAMO_FAULT='lower-error:op=sin;lower-internal:op=tanh' python two_errors.py
"""

import torch

import dynamo


def model(x, w):
    y = torch.sin(x) * w
    z = torch.tanh(y) + x
    return (z * 2).sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
