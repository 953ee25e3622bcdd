"""A loop counts in an attribute that compiled code takes for a size."""

import torch


class Trainer:
    def __init__(self):
        self.epoch = 0
        self.run = torch.compile(self.warmed, backend="eager")

    def warmed(self, x):
        return x[: self.epoch + 1].sum()

    def train(self):
        for self.epoch in range(4):
            print(self.run(torch.ones(8)).item())


Trainer().train()

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number attribute | self.epoch | 12 | 15 | is a size | no
