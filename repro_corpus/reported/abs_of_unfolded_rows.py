"""abs_ through an unfolded view of two dimensions, and the tensor below it."""

import torch


@torch.compile
def f(x):
    y = x * 1
    return y.unfold(1, 4, 2).abs_(), y


print(f(torch.linspace(-3, 3, 12).view(2, 6)))
