"""vmap over autograd.grad of a compiled function's result."""

import torch

f = torch.compile(lambda x: x**2 + x.sum(), backend="aot_eager")
x = torch.rand(4, requires_grad=True)
y = f(x)
print(torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])(torch.eye(4)))
