"""A model given the wrong width: torch's own error from inside the compiled function, which the script does not catch.

exit: 1
first: the error, and the line of the model it comes from
says: the script failed: RuntimeError: | at wrong_shapes.py:21
report: compiled
every run
"""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 2))

    def forward(self, x):
        x = x.flatten(1)
        return x @ self.weight


head = torch.compile(Head(), backend="eager")
print(head(torch.ones(1, 2, 2)).tolist())
head(torch.ones(1, 3, 2))
