"""forces from a compiled energy, trained on."""

import torch

energy = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1))
fast = torch.compile(energy, backend="aot_eager")
place = torch.rand(4, 3, requires_grad=True)
e = fast(place)
force = -torch.autograd.grad(e, place, torch.ones_like(e), create_graph=True, retain_graph=True)[0]
(force.pow(2).sum() + e.sum()).backward()
print(force.shape)
