"""Keyword arguments come in another order from another place."""

import torch


@torch.compile(backend="eager")
def joined(**parts):
    return torch.cat(list(parts.values()))


a, b = torch.zeros(1), torch.ones(1)
for step in range(2):
    print(joined(a=a, b=b).tolist())
    print(joined(b=b, a=a).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: order of keys | parts | 8 | 14 | in one order | no
