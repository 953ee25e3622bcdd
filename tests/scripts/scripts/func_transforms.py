"""Per-sample gradients with `torch.func`, in compiled code and around it.

first: the transforms run outside of graphs, and torch's engine would capture them
says: a graph break at func_transforms.py:24 | torch._functorch.apis.grad | torch.compile captures it as part of the graph
report: compiled
"""

import torch
from torch.func import functional_call, grad, jacrev, vmap

model = torch.nn.Linear(3, 1)
with torch.no_grad():
    model.weight.fill_(0.5)
    model.bias.zero_()
parameters = dict(model.named_parameters())


def loss(parameters, x):
    return functional_call(model, parameters, (x,)).square().sum()


@torch.compile(backend="eager")
def per_sample(x):
    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)["weight"]


@torch.compile(backend="eager")
def scaled(x):
    return x.sin() * 2


print(per_sample(torch.ones(2, 3)).tolist())
print([[round(v, 3) for v in row] for row in jacrev(scaled)(torch.zeros(2)).tolist()])
print(vmap(scaled)(torch.zeros(2, 2)).tolist())
