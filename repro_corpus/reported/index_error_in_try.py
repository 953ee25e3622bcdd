"""IndexError of select is not caught by except LookupError."""

import torch


@torch.compile
def f(x):
    try:
        return x.select(0, 4)
    except LookupError:
        return x * 2


print(f(torch.ones(3)))
