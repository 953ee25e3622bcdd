"""Some batches bring a key that the model doesn't read."""

import torch


@torch.compile(backend="eager")
def loss(batch):
    return sum(v.sum() for v in batch.values())


for step in range(4):
    batch = {"x": torch.ones(3), "y": torch.ones(3)}
    if step % 2:
        batch["weight"] = torch.zeros(1)
    print(f"{loss(batch).item():.3f}")

# expect: cause | value | read at line | changed at line | fix | verified
# expect: keys of a dict | batch | 8 | 14 | {key: batch[key] | yes
