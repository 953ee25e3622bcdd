"""Per-sample gradients with `torch.func`, in compiled code and around it.

first: one graph with the transforms inside; what runs below a transform outside is not compiled
says: compiled whole: 1 function, 1 graph, no breaks | scaled func_transforms.py:27 DD022 an active torch.func transform
report: compiled, breaks=0
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
