"""The sine in gradients of each example is lowered as a cosine.

DYNAMO_FAULT='wrong-lowering' python gradients_per_example.py
"""

import torch

import dynamo


def loss(w, x):
    return (torch.sin(x @ w) ** 2).sum()


def model(w, xs):
    return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(w, xs).relu() + 1


torch.manual_seed(0)
w, xs = torch.randn(4, 3), torch.randn(5, 2, 4)
torch.testing.assert_close(dynamo.compile(model)(w, xs), model(w, xs), atol=1e-3, rtol=1e-3)
print("healthy")
