"""A metric switches the model to evaluation and back in every step."""

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.0)

    def forward(self, x):
        return self.drop(x) * 2


net = torch.compile(Net(), backend="eager")
x = torch.ones(3)
for step in range(3):
    net.train()
    print(net(x).tolist())
    net.eval()
    print(net(x + 1).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: train/eval | self.drop.training | 12 | 20 | two are the least | no
