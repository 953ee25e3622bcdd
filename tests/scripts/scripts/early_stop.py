"""A training step that logs, reads its loss and stops early, all inside the compiled function.

first: which lines break
says: early_stop.py:27 | early_stop.py:29 | early_stop.py:30
report: compiled, some-breaks
every run
"""

import logging
import sys

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s")
log = logging.getLogger("train")
torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = {"loss": float("inf"), "bad": 0}


@torch.compile(backend="eager")
def train_step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    value = loss.item()
    log.info("loss %.3f", value)
    if value < best["loss"] - 1e-3:
        best.update(loss=value, bad=0)
    else:
        best["bad"] += 1
    return best["bad"] > 1


x, y = torch.randn(8, 3), torch.randn(8, 1)
for number in range(3):
    if train_step(x, y):
        break
print("done", number)
