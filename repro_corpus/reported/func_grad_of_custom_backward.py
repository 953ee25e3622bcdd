"""torch.func.grad takes the derivative of forward instead of the custom backward."""

import torch


class ZeroGrad(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


def loss(x):
    return ZeroGrad.apply(x).sum()


x = torch.rand(3)
found = torch.compile(torch.func.grad(loss))(x)
torch.testing.assert_close(found, torch.zeros(3))
