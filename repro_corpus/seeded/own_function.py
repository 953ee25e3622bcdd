"""The sine in a function with a gradient of its own has a lowering that fails.

DYNAMO_FAULT='lower-error' python own_function.py
"""

import torch

import dynamo


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        ctx.by = by
        return torch.sin(x) * by

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x) * ctx.by, None


def model(x, y):
    hidden = torch.tanh(x + y)
    return torch.relu(Scaled.apply(hidden, 2.0)) + y.exp()


torch.manual_seed(0)
x, y = torch.randn(8, 16, requires_grad=True), torch.randn(8, 16)
dynamo.config.suppress_errors = False
dynamo.compile(model)(x, y).sum().backward()
print("healthy")
