"""Rows and their labels come in batches of another size each; the weight beside them does not change."""

import torch


@torch.compile(backend="eager", dynamic=False)
def loss(weight, rows, *, labels):
    return ((rows * weight).sum(1) - labels).square().sum()


weight = torch.ones(4)
for size in (5, 7, 9):
    rows = torch.arange(size * 4.0).reshape(size, 4)
    print(loss(weight, rows, labels=rows.sum(1) + 1).item())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: size of a dim | rows | 8 | 13 | pad dim 0 of `rows` to 9 and dim 0 of `rows.sum(1) + 1` (`labels` there) to 9 | yes
