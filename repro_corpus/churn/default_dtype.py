"""The default dtype is another one in every second step."""

import torch


@torch.compile(backend="eager")
def grid(n):
    return torch.ones(n) / 3


for step in range(4):
    torch.set_default_dtype(torch.float64 if step % 2 else torch.float32)
    print(grid(3).dtype)
torch.set_default_dtype(torch.float32)

# expect: cause | value | read at line | changed at line | fix | verified
# expect: global mode | default dtype | 13 | 12 | the same default dtype | no
