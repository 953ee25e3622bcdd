"""A member of an enum is an argument, and compiled code asks which one it is."""

import enum

import torch


class Reduction(enum.Enum):
    SUM = 1
    MEAN = 2


@torch.compile(backend="eager")
def reduced(x, how):
    return x.sum() if how is Reduction.SUM else x.mean()


for step in range(4):
    how = Reduction.MEAN if step % 2 else Reduction.SUM
    print(reduced(torch.ones(3), how).item())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: choice | how | 15 | 19 | decide outside | no
