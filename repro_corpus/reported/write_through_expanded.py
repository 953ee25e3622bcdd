"""a write to an expanded tensor, which eager refuses, goes through."""

import torch


@torch.compile
def f(x):
    return x.expand(3, 2).add_(1)


try:
    f(torch.ones(1, 2))
except RuntimeError:
    print("refused")
else:
    raise AssertionError("no error")
