"""In the backward a cosine is lowered as a sine.

    DYNAMO_FAULT='wrong-lowering:op=cos,as=sin,backward=1' python backward_wrong_lowering.py
"""

import torch

import dynamo


def model(x, w):
    gate = torch.sigmoid(w - x.mean(1, keepdim=True))
    z = torch.sin(x * gate)
    return (z + w).exp().sum(0) - gate.sum(0)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
def step(fn):
    a = x.clone().requires_grad_()
    fn(a, w).sum().backward()
    return a.grad


torch.testing.assert_close(step(dynamo.compile(model)), step(model), atol=1e-3, rtol=1e-3)
print("healthy")
