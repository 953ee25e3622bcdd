"""A classifier trained for a few steps.

first: one graph with its backward, no break
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | Sequential.forward
report: compiled, breaks=0
every run
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data, target = torch.randn(12, 8), torch.randint(0, 3, (12,))
for step in range(3):
    loss = nn.functional.cross_entropy(fast(data), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.4f}")
