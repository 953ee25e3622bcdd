"""`exp` is lowered as a root where its operand is a negation.

    DYNAMO_FAULT='wrong-lowering:op=exp,as=sqrt,reads=neg' python wrong_lowering_of_pair.py
"""

import torch

import dynamo


def model(x, w):
    a = torch.exp(-x.abs())
    b = torch.exp(w * 0.1)
    return (a * b).sum(1) + b.mean(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
