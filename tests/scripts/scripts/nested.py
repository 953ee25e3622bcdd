"""Compiled functions that call compiled functions, and a compiled model in a compiled loss.

first: the inner ones are part of the outer graph
says: similarity | no breaks
report: compiled, breaks=0
"""

import torch


@torch.compile(backend="eager")
def norm(x):
    return x / x.pow(2).sum(-1, keepdim=True).sqrt()


model = torch.compile(torch.nn.Linear(2, 2, bias=False), backend="eager")
with torch.no_grad():
    model.weight.copy_(torch.eye(2))


@torch.compile(backend="eager", fullgraph=True)
def similarity(a, b):
    return (norm(model(a)) * norm(model(b))).sum(-1)


print([f"{v:.3f}" for v in similarity(torch.eye(2), torch.ones(2, 2)).tolist()])
print([f"{v:.3f}" for v in norm(torch.ones(2)).tolist()])
