"""0.0 and -0.0 as an argument are one."""

import torch


def f(x, by):
    return x / by


x = torch.ones(2)
fast = torch.compile(f, dynamic=False)
fast(x, 0.0)
torch.testing.assert_close(fast(x, -0.0), f(x, -0.0))
