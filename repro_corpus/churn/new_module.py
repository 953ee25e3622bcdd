"""A layer without state is made anew for every call."""

import torch


@torch.compile(backend="eager")
def head(x, layer):
    return layer(x) + 1


for step in range(4):
    layer = torch.nn.LayerNorm(4)
    print([f"{v:.3f}" for v in head(torch.arange(4.0), layer).tolist()])

# expect: cause | value | read at line | changed at line | fix | verified
# expect: new object | layer | 8 | 12 | before the loop of line 11 | yes
