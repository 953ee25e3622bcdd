"""Evaluation runs under no_grad in one place and forgets it in the other."""

import torch


@torch.compile(backend="eager")
def predict(x):
    return (x * 2).tanh()


x = torch.ones(3)
for step in range(3):
    print([f"{v:.4f}" for v in predict(x).tolist()])
    with torch.no_grad():
        print([f"{v:.4f}" for v in predict(x + 1).tolist()])

# expect: cause | value | read at line | changed at line | fix | verified
# expect: global mode | grad mode | 15 | 14 | torch.no_grad() | yes
