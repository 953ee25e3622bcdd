"""A number of the script's globals that grows with the steps."""

import torch

WARMUP = 1


@torch.compile(backend="eager")
def scale(x):
    return x / WARMUP


for _ in range(6):
    print(f"{scale(torch.ones(4)).sum().item():.4f}")
    WARMUP += 1

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number global | WARMUP | 10 | 15 | torch.tensor(1) | yes
