"""next of an exhausted iterator in try is an internal error."""

import torch


@torch.compile
def f(x):
    out = []
    for it in (iter([1, 2]), reversed([1, 2]), iter((1, 2)), zip([1], [2], strict=True), enumerate([1]), map(abs, [1])):
        list(it)
        try:
            next(it)
        except StopIteration:
            out.append(x.sin())
    return out


print(len(f(torch.ones(1))))
