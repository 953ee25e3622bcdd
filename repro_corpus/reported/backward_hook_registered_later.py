"""a full backward hook registered after the first call never runs."""

import torch

linear = torch.nn.Linear(3, 3, bias=False)
f = torch.compile(lambda x: linear(x))
x = torch.rand(2, 3, requires_grad=True)
f(x).sum().backward()
first, x.grad = x.grad, None
linear.register_full_backward_hook(lambda m, gi, go: [g * 2 for g in gi])
f(x).sum().backward()
torch.testing.assert_close(x.grad, first * 2)
