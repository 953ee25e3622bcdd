"""A compiled function that imports a module when it is called.

first: the break at the import's neighbour; the module's own code is left alone
report: compiled
"""

import torch


@torch.compile(backend="eager")
def f(x):
    y = x + 1
    print("loading")
    import imported_late

    return y + imported_late.CONSTANT


print(f(torch.ones(2)).tolist(), f(torch.ones(2)).tolist())
