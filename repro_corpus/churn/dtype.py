"""Every other batch comes from NumPy-like code in double precision."""

import torch


@torch.compile(backend="eager")
def score(x):
    return (x * 2).relu().sum()


for step in range(4):
    x = torch.arange(-2.0, 4.0, dtype=torch.float64 if step % 2 else torch.float32)
    print(f"{score(x).item():.3f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: dtype | x | 8 | 12 | x.to(torch.float32) | yes
