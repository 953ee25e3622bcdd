"""an operator without mutated arguments that returns nothing."""

import torch


def impl(x: torch.Tensor) -> None:
    pass


reads = torch.library.custom_op("reported::reads", impl, mutates_args=())


@torch.compile
def f(x):
    y = x * 2
    reads(y)
    return y


print(f(torch.ones(2)))
