"""A compiled function that imports a module when it is called.

first: the breaks at the print and at the import
says: graph breaks at 2 lines | lazy_import.py:15 DD005 C function that can't be seen into: import imported_late | import the module at the top of the file
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
