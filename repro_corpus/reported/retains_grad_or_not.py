"""retains_grad of an input is taken for False."""

import torch


def f(x):
    return x + x.retains_grad


fast = torch.compile(f, dynamic=False)
one, two = (torch.ones(2, requires_grad=True) * 1 for _ in range(2))
two.retain_grad()
fast(one)
torch.testing.assert_close(fast(two), f(two))
