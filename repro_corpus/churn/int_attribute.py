"""A module counts its calls and unrolls nothing with the count, but its value takes part in the arithmetic."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 1
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        return self.layer(x) / self.calls


torch.manual_seed(0)
net = torch.compile(Net(), backend="eager")
for _ in range(6):
    print(f"{net(torch.ones(2, 4)).sum().item():.4f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number attribute | self.calls | 14 | 13 | torch.tensor(1) | yes
