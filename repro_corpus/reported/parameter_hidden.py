"""an entry of a module's __dict__ hides a parameter and is not seen."""

import torch

net = torch.nn.Module()
net.w = torch.nn.Parameter(torch.ones(2))
f = torch.compile(lambda x: x * net.w)
f(torch.ones(2))
object.__setattr__(net, "w", torch.full((2,), 3.0))
torch.testing.assert_close(f(torch.ones(2)), torch.full((2,), 3.0))
