"""Mixed precision with autocast.

first: one graph, compiled whole under autocast
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled
"""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 4)
fast = torch.compile(model, backend="aot_eager")
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = fast(torch.ones(2, 4))
    loss = y.float().pow(2).mean()
loss.backward()
print(y.dtype, model.weight.grad.dtype, f"{loss.item():.2f}")
