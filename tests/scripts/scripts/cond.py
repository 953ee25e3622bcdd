"""`torch.cond` in a compiled function, and outside of one.

first: the two branches of `torch.cond` belong to the one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | 5 ops
report: compiled
every run
"""

import torch


def larger(x):
    return x * 2


def smaller(x):
    return x - 1


@torch.compile(backend="eager")
def f(x):
    return torch.cond(x.sum() > 0, larger, smaller, (x + 1,))


print(f(torch.ones(3)).tolist(), f(-torch.ones(3) * 5).tolist())
print(torch.cond(torch.tensor(True), larger, smaller, (torch.ones(2),)).tolist())
