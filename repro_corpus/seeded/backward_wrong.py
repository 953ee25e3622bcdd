"""The gradient of the sine is a sine.

    DYNAMO_FAULT='wrong-operator' python backward_wrong.py
"""

import torch

import dynamo


def model(x, w):
    y = (x * w).relu()
    y = torch.sin(y + 1) - w.abs()
    return y.sum(1) * 0.5


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
def step(fn):
    a = x.clone().requires_grad_()
    fn(a, w).sum().backward()
    return a.grad


torch.testing.assert_close(step(dynamo.compile(model)), step(model), atol=1e-3, rtol=1e-3)
print("healthy")
