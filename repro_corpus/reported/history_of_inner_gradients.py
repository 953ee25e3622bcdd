"""gradients taken inside with create_graph can't be differentiated."""

import torch


@torch.compile(backend="aot_eager")
def f(x, w):
    y = torch.relu(x @ w)
    return torch.autograd.grad(y.sum(), [x, w], create_graph=True)


x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
gx, gw = f(x, w)
(gx.sum() + gw.sum()).backward()
print(x.grad.shape)
