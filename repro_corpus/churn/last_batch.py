"""Every epoch ends with a batch that is smaller than the others, and each epoch's is of another size."""

import torch


@torch.compile(backend="eager")
def normalise(batch):
    return (batch - batch.mean(1, keepdim=True)) * 2


for epoch in range(3):
    data = torch.arange((10 + epoch) * 4.0).reshape(-1, 4)
    for start in range(0, len(data), 8):
        print(normalise(data[start : start + 8]).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: size of a dim | batch | 8 | 14 | pad dim 0 | yes
