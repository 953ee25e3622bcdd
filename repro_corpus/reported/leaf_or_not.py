"""is_leaf of an input is a constant of the first call."""

import torch


def f(x):
    return x + x.is_leaf


fast = torch.compile(f, dynamic=False)
one = torch.ones(2, requires_grad=True)
two = one * 1
fast(one)
torch.testing.assert_close(fast(two), f(two))
