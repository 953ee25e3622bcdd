"""Lowering fails in the backward only.

    DYNAMO_FAULT='lower-error:op=cos,backward=1' python backward_error.py
"""

import torch

import dynamo


def model(x, w):
    gate = torch.sigmoid(w - x.mean(1, keepdim=True))
    z = torch.sin(x * gate)
    return (z + w).exp().sum(0) - gate.sum(0)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
x.requires_grad_()
dynamo.compile(model)(x, w).sum().backward()
print(x.grad.shape)
