"""`torch.func` transforms given to `torch.compile` themselves.

first: one graph with the transforms inside; a Jacobian given to torch.compile runs in eager
says: compiled whole: 1 function, 1 graph, no breaks | wrapper_fn eager_transforms.py | a transform of torch.func hides what it runs
report: compiled, breaks=0
"""

import torch
from torch.func import functional_call, grad, jacrev, vmap

model = torch.nn.Linear(3, 1)
with torch.no_grad():
    model.weight.fill_(0.5)
    model.bias.zero_()
parameters = dict(model.named_parameters())


def loss(parameters, x, y):
    return (functional_call(model, parameters, (x,)) - y).square().mean()


per_sample = torch.compile(vmap(grad(loss), in_dims=(None, 0, 0)), backend="eager")
print({name: tuple(g.shape) for name, g in per_sample(parameters, torch.ones(4, 3), torch.zeros(4, 1)).items()})
print(torch.compile(jacrev(torch.square), backend="eager")(torch.arange(3.0)).diagonal().tolist())
