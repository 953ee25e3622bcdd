"""A label for the log is an argument of compiled code, which looks at it."""

import torch


@torch.compile(backend="eager")
def layer(x, name):
    if name.startswith("debug"):
        return x
    return x * 2


for step in range(4):
    print(layer(torch.ones(3), f"layer{step}").tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: string | name | 8 | 14 | decide outside | no
