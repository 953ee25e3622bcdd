"""The number of refinement steps is an argument, and the loop over it is unrolled."""

import torch


@torch.compile(backend="eager")
def refine(x, steps):
    for _ in range(steps):
        x = x + (2 - x * x) * 0.25
    return x


for steps in range(1, 6):
    print(f"{refine(torch.ones(1), steps).item():.4f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number argument | steps | 8 | 13 | counts a loop | no
