"""a forward hook registered after the first call never runs."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
fast = torch.compile(model)
x = torch.rand(2, 3)
fast(x)
seen = []
model[0].register_forward_hook(lambda m, i, o: seen.append(o.sum()))
fast(x)
assert len(seen) == 1, seen
