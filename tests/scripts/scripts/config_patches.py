"""Settings of the compiler, patched for a block and for a function, as libraries do in their tests.

first: which patched limits were reached, and by what
says: f reached its recompile limit of 2 because x.size(0) changes
report: compiled, recompiles=f
"""

import torch
import torch._dynamo
import torch._dynamo.config as config


@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x + 1


@config.patch(recompile_limit=1)
def frugal():
    return f(torch.ones(8)).sum().item() + f(torch.ones(9)).sum().item(), config.recompile_limit


print(config.recompile_limit)
with config.patch("recompile_limit", 2), config.patch({"suppress_errors": True}):
    print([f(torch.ones(n)).sum().item() for n in (1, 2, 3, 4)], config.recompile_limit)
torch._dynamo.reset()
print(frugal(), config.recompile_limit)
