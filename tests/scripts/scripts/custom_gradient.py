"""A quantiser with a gradient of its own, in a compiled model.

first: the autograd function is part of the one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | quantise
report: compiled, breaks=0
"""

import torch


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, levels):
        ctx.save_for_backward(x)
        return (x * levels).round() / levels

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1), None


@torch.compile(backend="aot_eager")
def quantise(x):
    return Round.apply(x.tanh() * 1.1, 4)


x = torch.linspace(-2, 2, 5, requires_grad=True)
y = quantise(x)
y.sum().backward()
print([f"{v:.3f}" for v in y.tolist()], [f"{v:.3f}" for v in x.grad.tolist()])
