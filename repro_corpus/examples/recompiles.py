"""A loop whose arguments change from call to call: each new fact is a recompile, and the report says which."""

import torch


@torch.compile(backend="eager")
def scaled(x, factor):
    return torch.relu(x) * factor


torch.manual_seed(0)
for step in range(4):
    print(step, scaled(torch.randn(4), step).shape)
for size in (5, 6):
    print(size, scaled(torch.randn(size), 0).shape)
print(scaled(torch.randn(6, dtype=torch.float64), 0).dtype)
