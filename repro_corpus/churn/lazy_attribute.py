"""An attribute that is made by the first call."""

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = 2.0
        return x * self.scale


net = torch.compile(Net(), backend="eager")
for step in range(3):
    print(net(torch.ones(3)).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: attribute made later | self.scale | 8 | 9 | scale = 2.0 | yes
