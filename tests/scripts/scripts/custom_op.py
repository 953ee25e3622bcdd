"""A custom operator with a fake implementation and a gradient, in a compiled function.

first: the operator is a node of one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | 2 ops
report: compiled, breaks=0
"""

import torch


@torch.library.custom_op("mine::scale", mutates_args=())
def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@scale.register_fake
def _(x, by):
    return torch.empty_like(x)


def backward(ctx, grad):
    return grad * ctx.by, None


def setup(ctx, inputs, output):
    ctx.by = inputs[1]


scale.register_autograd(backward, setup_context=setup)
f = torch.compile(lambda x: scale(x, 3.0).sum(), backend="aot_eager")
x = torch.ones(2, requires_grad=True)
loss = f(x)
loss.backward()
print(loss.item(), x.grad.tolist())
