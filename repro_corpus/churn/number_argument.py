"""A learning rate that a schedule changes comes in as a Python number."""

import torch


@torch.compile(backend="eager")
def step(weight, grad, rate):
    return weight - rate * grad


weight = torch.ones(3)
for epoch in range(6):
    weight = step(weight, torch.full((3,), 0.5), 0.1 * 0.5**epoch)
    print([f"{w:.4f}" for w in weight.tolist()])

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number argument | rate | 8 | 13 | torch.tensor(0.1 * 0.5**epoch | yes
