"""abs_ through an unfolded view is refused while functionalising."""

import torch


@torch.compile
def f(x):
    return (x + x).unfold(0, 3, 2).abs_()


print(f(torch.linspace(-2, 2, 7)))
