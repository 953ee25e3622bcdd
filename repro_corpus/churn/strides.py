"""One caller passes the matrix, the other one its transpose: the same shape in another layout."""

import torch


@torch.compile(backend="eager")
def total(x):
    return (x.relu() + 1).sum(0)


a = torch.arange(9.0).reshape(3, 3)
for step in range(3):
    print(total(a).tolist())
    print(total(a.t()).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: strides | x | 8 | 14 | a.t().contiguous() | yes
