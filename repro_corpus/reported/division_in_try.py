"""division by a zero that is known only at run time, in a try."""

import torch


@torch.compile
def f(x):
    try:
        return 12 // x
    except RuntimeError:
        return x + 2


print(f(torch.tensor(5)))
print(f(torch.tensor(0)))
