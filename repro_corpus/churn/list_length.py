"""A history of tensors grows by one per step."""

import torch


@torch.compile(backend="eager")
def average(history):
    return sum(history) / len(history)


history = []
for step in range(5):
    history.append(torch.full((3,), float(step)))
    print(average(history).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: length of a container | history | 8 | 13 | fixed number of items | no
