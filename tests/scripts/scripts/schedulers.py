"""A learning rate that warms up and decays, with the optimizer's step compiled.

first: the step is compiled again for each learning rate
says: step is compiled | ['lr'] = | make it a tensor
report: compiled, recompiles=step
"""

import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.manual_seed(0)
weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2, 2))]
optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9)
scheduler = SequentialLR(optimizer, [LinearLR(optimizer, 0.1, 1.0, 2), CosineAnnealingLR(optimizer, 4)], [2])


@torch.compile(backend="aot_eager", fullgraph=False)
def step():
    optimizer.step()


for _ in range(5):
    optimizer.zero_grad()
    sum(w.pow(2).sum() for w in weights).backward()
    step()
    scheduler.step()
    print(f"{scheduler.get_last_lr()[0]:.4f}", f"{weights[0][0].item():.4f}")
