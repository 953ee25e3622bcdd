"""Warm-up, then a service that should compile no more: `torch.compiler.set_stance`.

first: what the warm-up compiled; later shapes ran in eager
says: f is compiled 2 times because x.size(0) changes
report: compiled
every run
"""

import torch


@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x.square().sum()


for n in (2, 3):
    f(torch.ones(n))
with torch.compiler.set_stance("eager_on_recompile"):
    print(f(torch.ones(3)).item(), f(torch.ones(5)).item())
with torch.compiler.set_stance("force_eager"):
    print(f(torch.ones(7)).item())
print(f(torch.ones(2)).item())
