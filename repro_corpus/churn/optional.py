"""A cache is None at first and a tensor from then on."""

import torch


@torch.compile(backend="eager")
def attend(x, cache):
    return x if cache is None else x + cache


cache = None
for step in range(4):
    cache = attend(torch.ones(3), cache)
    print(cache.tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: None, then a value | cache | 8 | 13 | instead of None | no
