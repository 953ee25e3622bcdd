"""Hooks on a compiled model: activations kept, gradients watched, one layer's output changed.

first: the hook that prints is a break, at its line
says: a graph break at hooks.py:16: output to the terminal or a log: print
report: compiled, some-breaks
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
kept = {}
model[0].register_forward_hook(lambda module, args, out: kept.update(first=out.detach()))
model[1].register_forward_hook(lambda module, args, out: out * 2)
model[2].register_forward_pre_hook(lambda module, args: print("into the last:", tuple(args[0].shape)))
model[2].weight.register_hook(lambda grad: kept.update(grad=grad.norm()))
fast = torch.compile(model, backend="aot_eager")
loss = fast(torch.ones(4, 2)).sum()
loss.backward()
print(tuple(kept["first"].shape), f"{kept['grad'].item():.4f}", f"{loss.item():.4f}")
