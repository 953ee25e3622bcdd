"""first and second derivative in one function, with a break between."""

import torch


@torch.compile(backend="aot_eager")
def f(x):
    y = x.sin() * x
    print("break")
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    return g, h


print(f(torch.rand(3, requires_grad=True)))
