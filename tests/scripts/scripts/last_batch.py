"""Training over a DataLoader whose last batch is smaller, with evaluation in between.

first: the smaller batches and evaluation are what it compiles again for
says: Sequential.forward is compiled 3 times | input.size(0) = 8, 6 | grad mode = on, off
report: compiled
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(22, 5), torch.randint(0, 3, (22,)))
model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.0), nn.ReLU(), nn.Linear(8, 3))
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    fast.train()
    for x, y in DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(fast(x), y)
        loss.backward()
        optimizer.step()
    fast.eval()
    with torch.no_grad():
        right = sum((fast(x).argmax(-1) == y).sum().item() for x, y in DataLoader(data, batch_size=11))
    print(epoch, f"{loss.item():.4f}", right)
