"""An optimiser written by hand reads its rate from a dict that a scheduler writes to."""

import torch

group = {"rate": 0.5}


@torch.compile(backend="eager")
def update(weight, group):
    return weight - group["rate"] * weight.sign()


weight = torch.full((3,), 4.0)
for _ in range(6):
    weight = update(weight, group)
    group["rate"] = group["rate"] * 0.5
    print(f"{weight.sum().item():.4f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number item | group['rate'] | 10 | 16 | torch.tensor(0.5 | yes
