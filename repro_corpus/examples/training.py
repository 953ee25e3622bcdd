"""A training step: forward and loss are compiled, backward and the optimizer run as always."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


@torch.compile
def loss_of(inputs, targets):
    return nn.functional.cross_entropy(model(inputs), targets)


inputs, targets = torch.randn(16, 8), torch.randint(4, (16,))
for step in range(steps):
    optimizer.zero_grad()
    loss = loss_of(inputs, targets)
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
