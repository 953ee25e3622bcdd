"""an entry of a module's __dict__ hides a submodule and is not seen."""

import torch


class Wrapper(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = torch.nn.ReLU()

    def forward(self, x):
        return self.sub(x)


net = Wrapper()
f = torch.compile(net)
x = torch.tensor([-1.0, 2.0])
f(x)
object.__setattr__(net, "sub", torch.nn.Tanh())
torch.testing.assert_close(f(x), x.tanh())
