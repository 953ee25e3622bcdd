"""A schedule changes the learning rate of an optimizer whose step is compiled."""

import torch

weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)


@torch.compile(backend="eager")
def update():
    optimizer.step()


for step in range(4):
    optimizer.zero_grad()
    weight.sum().backward()
    update()
    schedule.step()
    print(f"{weight.sum().item():.4f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number item | optimizer.param_groups[0]['lr'] | 12 | 18 | torch.tensor(0.1, dtype=torch.float64) | yes
