"""Training passes parameters, logging passes what it has detached."""

import torch


@torch.compile(backend="eager")
def norm(x):
    return (x * x).sum().sqrt()


weight = torch.ones(4, requires_grad=True)
for step in range(3):
    print(f"{norm(weight.detach()).item():.3f}")
    print(f"{norm(weight).item():.3f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: requires_grad | x | 8 | 14 | weight.detach() | yes
