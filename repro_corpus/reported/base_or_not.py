"""that _base of an input was None is not guarded."""

import torch


def f(x):
    return x if x._base is None else x + 5


fast = torch.compile(f, dynamic=False)
one = torch.ones(2)
two = torch.ones(4)[:2]
fast(one)
torch.testing.assert_close(fast(two), f(two))
