"""A model of which one part must not be compiled: `torch.compiler.disable` with a reason.

first: the break at the call of the disabled part, with its author's reason
says: a graph break at disabled_parts.py:26: function marked not to be compiled: Tokens.forward is disabled (calls a C library)
report: compiled, breaks=1
every run
"""

import torch
from torch import nn


class Tokens(nn.Module):
    @torch.compiler.disable(reason="calls a C library")
    def forward(self, x):
        return torch.tensor([[float(v) for v in row] for row in x.tolist()])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = Tokens()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        hidden = self.tokens(x + 1)
        return hidden * self.scale


model = torch.compile(Model(), backend="eager")
for _ in range(2):
    print(model(torch.ones(1, 3)).tolist())
