"""A compiled training step with the optimizer and a scheduler inside the loop.

first: `backward()` breaks, and each learning rate compiles the rest anew
says: a graph break at compiled_step.py:20 | Tensor.backward | optimizer.param_groups[0]['lr'] = 0.1, 0.05, 0.025: make it a tensor
report: compiled
"""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
x, y = torch.randn(5, 3), torch.randn(5, 1)


@torch.compile(backend="aot_eager")
def step():
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


for _ in range(3):
    print(f"{step().item():.3f}")
    scheduler.step()
