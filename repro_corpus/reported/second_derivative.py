"""a second derivative of what a compiled function gives back."""

import torch

f = torch.compile(lambda x: (x**5).sum(), backend="aot_eager")
x = torch.tensor([0.5, 1.5], requires_grad=True)
(g,) = torch.autograd.grad(f(x), x, create_graph=True)
print(torch.autograd.grad(g.sum(), x)[0])
