"""torch.set_default_dtype within a compiled function."""

import torch


def f():
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2) + 1
    torch.set_default_dtype(torch.float32)
    return y


torch.testing.assert_close(torch.compile(f)(), f())
