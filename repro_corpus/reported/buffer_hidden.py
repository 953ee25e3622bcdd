"""an entry of a module's __dict__ hides a buffer and is not seen."""

import torch

net = torch.nn.Module()
net.register_buffer("b", torch.ones(2))
f = torch.compile(lambda x: x + net.b)
f(torch.ones(2))
object.__setattr__(net, "b", torch.full((2,), 5.0))
torch.testing.assert_close(f(torch.ones(2)), torch.full((2,), 6.0))
