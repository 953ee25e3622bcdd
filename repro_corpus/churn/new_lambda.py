"""A lambda is made anew for every call."""

import torch


@torch.compile(backend="eager")
def applied(fn, x):
    return fn(x) + 1


for step in range(4):
    print(applied(lambda t: t * 2, torch.ones(3)).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: new object | fn | 8 | 12 | before the loop of line 11 | yes
