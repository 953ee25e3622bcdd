"""Lowering the outer product of a gradient fails.

    DYNAMO_FAULT='lower-error:op=mm,backward=1' python aten_backward_error.py
"""

import torch

import dynamo


def model(x, w):
    return torch.tanh(x @ w.t()).sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
x.requires_grad_()
dynamo.compile(model)(x, w).sum().backward()
print(x.grad.shape)
