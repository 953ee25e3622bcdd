"""A script that ends with `os._exit`: nothing of Python's own ending runs.

exit: 7
first: it ended with 7, and what was compiled until then
says: ended itself with exit code 7 | 1 function
report: compiled
"""

import os

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


print(f(torch.ones(2)).tolist(), flush=True)
os._exit(7)
