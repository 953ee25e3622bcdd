"""A module is given the temperature of the step by keyword."""

import torch


class Head(torch.nn.Module):
    def forward(self, x, temperature=1.0):
        return torch.softmax(x / temperature, -1)


net = torch.compile(Head(), backend="eager")
for step in range(1, 5):
    print([f"{v:.4f}" for v in net(torch.arange(3.0), temperature=1 / step).tolist()])

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number argument | temperature | 8 | 13 | torch.tensor(1 / step, dtype=torch.float64) | yes
