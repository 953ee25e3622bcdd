"""One of two arguments has another size at each call, and there are two results."""

import torch


@torch.compile(backend="eager", dynamic=False)
def attend(keys, queries):
    return queries * keys, (queries + keys).cos()


keys = torch.ones(4)
for size in (3, 5, 8):
    first, second = attend(keys, torch.full((size, 4), 2.0))
    print(first.tolist(), second.tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: size of a dim | queries | 8 | 13 | take the first rows of each result | yes
