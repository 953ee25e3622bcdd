"""Checkpoints of a compiled model: saved, loaded into a plain one, and training resumed.

first: one function, compiled for the loaded model again
says: no breaks
report: compiled, breaks=0
"""

import tempfile
from pathlib import Path

import torch
from torch import nn


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    return model, torch.optim.Adam(model.parameters(), lr=0.01)


def train(model, optimizer, steps):
    x = torch.linspace(-1, 1, 12).reshape(6, 2)
    for _ in range(steps):
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return f"{loss.item():.5f}"


model, optimizer = build()
fast = torch.compile(model, backend="aot_eager")
print(train(fast, optimizer, 2))
print(list(fast.state_dict())[:2])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "last.pt"
    torch.save({"model": fast.state_dict(), "optimizer": optimizer.state_dict()}, path)
    saved = torch.load(path)
again, optimizer = build()
again.load_state_dict({name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()})
optimizer.load_state_dict(saved["optimizer"])
again.compile(backend="aot_eager")
print(train(again, optimizer, 2), list(again.state_dict())[:1])
