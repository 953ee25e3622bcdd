"""Batches of several sizes, announced with `mark_dynamic`.

first: how often it compiled, and that the marks have no effect here
says: f is compiled 4 times, 2 of them because x.size(0) changes | sizes marked as dynamic have no effect
report: compiled
every run
"""

import torch
import torch._dynamo as dynamo


@torch.compile(backend="eager")
def f(x):
    return (x * 2).sum()


for n in (3, 4, 5):
    x = torch.ones(n, 2)
    dynamo.mark_dynamic(x, 0)
    dynamo.maybe_mark_dynamic(x, 0)
    print(f(x).item())
y = torch.ones(4)
dynamo.mark_static(y)
dynamo.decorators.mark_static(y, 0)
dynamo.mark_static_address(y)
print(f(y).item())
z = torch.ones(4)
torch._dynamo.decorators.mark_unbacked(z, 0)
print(z.sum().item())
