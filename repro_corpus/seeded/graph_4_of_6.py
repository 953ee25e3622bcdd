"""Compiling the fourth graph of six crashes.

    DYNAMO_FAULT='lower-segfault' python graph_4_of_6.py
"""

import torch

import dynamo


def model(x, w):
    x = x + w
    dynamo.graph_break()
    x = torch.tanh(x * 0.5)
    dynamo.graph_break()
    x = x.relu() - w
    dynamo.graph_break()
    x = torch.sin(x) * w
    dynamo.graph_break()
    x = x.abs() + 1
    dynamo.graph_break()
    return x.sqrt().sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
