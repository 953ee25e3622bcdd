"""Fitting with LBFGS, whose closure calls the compiled loss many times.

first: the loss is one graph; the optimizer around it is not compiled
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | energy
report: compiled, breaks=0
"""

import torch

a = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
b = torch.tensor([1.0, -1.0])


@torch.compile(backend="aot_eager")
def energy(x):
    return 0.5 * x @ a @ x - b @ x


x = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.LBFGS([x], max_iter=10)


def closure():
    optimizer.zero_grad()
    value = energy(x)
    value.backward()
    return value


optimizer.step(closure)
print([f"{v:.3f}" for v in x.tolist()], [f"{v:.3f}" for v in torch.linalg.solve(a, b).tolist()])
