"""A script that fails in a compiled function: its own traceback and exit code.

exit: 1
first: the exception and the line it was raised at
says: the script failed: ValueError: more than 3 rows at raises.py:15
report: compiled
"""

import torch


@torch.compile(backend="eager")
def f(x, limit):
    if x.shape[0] > limit:
        raise ValueError(f"more than {limit} rows")
    return x + 1


print(f(torch.ones(2), 3).tolist())
f(torch.ones(4), 3)
