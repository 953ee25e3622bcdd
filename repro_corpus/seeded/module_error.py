"""Tracing fails at the GELU of a small network.

    DYNAMO_FAULT='aot-error:op=gelu' python module_error.py
"""

import torch

import dynamo


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.norm = torch.nn.LayerNorm(32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.norm(self.first(x)))
        return self.second(h).softmax(-1)


torch.manual_seed(0)
x = torch.randn(8, 16)
dynamo.config.suppress_errors = False
net = Net().eval()
print(dynamo.compile(net)(x).shape)
