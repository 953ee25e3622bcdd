"""a write to a value that backward needs, which eager refuses."""

import torch


def f(x):
    y = x.exp()
    z = y.sin()
    y.mul_(2)
    return z + y


x = torch.ones(2, requires_grad=True)
out = torch.compile(f)(x)
try:
    out.sum().backward()
except RuntimeError:
    print("refused")
else:
    raise AssertionError("no error")
