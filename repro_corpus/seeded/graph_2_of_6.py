"""The second graph of six is wrong.

    DYNAMO_FAULT='wrong-lowering' python graph_2_of_6.py
"""

import torch

import dynamo


def model(x, w):
    x = x + w
    dynamo.graph_break()
    x = torch.sin(x * 0.5)
    dynamo.graph_break()
    x = x.relu() - w
    dynamo.graph_break()
    x = torch.tanh(x) * w
    dynamo.graph_break()
    x = x.abs() + 1
    dynamo.graph_break()
    return x.sqrt().sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
