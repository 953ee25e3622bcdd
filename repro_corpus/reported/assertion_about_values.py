"""an assert about values of a tensor raises RuntimeError."""

import torch


@torch.compile
def f(x):
    assert x.sum() > 0, "positive"
    return x * 2


f(torch.ones(2))
try:
    f(-torch.ones(2))
except AssertionError:
    print("not positive")
