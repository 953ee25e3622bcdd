"""an exception handler of the function that raises another exception does not run."""

import torch


@torch.compile
def f(x, i):
    try:
        return x.gather(0, i)
    except RuntimeError as e:
        raise KeyError("no such row") from e


f(torch.ones(2), torch.tensor([0]))
try:
    f(torch.ones(2), torch.tensor([2]))
except KeyError:
    print("no such row")
