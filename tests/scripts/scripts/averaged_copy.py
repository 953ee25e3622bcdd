"""A copy of a compiled model that follows it: an exponential moving average.

first: two compiles: the copy runs without gradients
says: Sequential.forward is compiled 2 times because grad mode changes
report: compiled, breaks=0
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), backend="aot_eager")
teacher = copy.deepcopy(student).requires_grad_(False).eval()
optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
x = torch.ones(2, 3)
for _ in range(3):
    with torch.no_grad():
        target = teacher(x)
    loss = (student(x) - target * 0.5).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
            slow.lerp_(fast, 0.1)
    print(f"{loss.item():.5f}", type(teacher).__name__)
