"""A compiled function that ends the program when a loss is not finite; files are closed at exit.

exit: 4
first: the script ended with its own code 4, and at which line of the compiled function
says: the script ended itself with exit code 4 at ends_inside.py:20 | data-dependent branch
report: compiled
"""

import atexit
import sys

import torch


@torch.compile(backend="eager")
def step(x):
    loss = x.log().sum()
    if not torch.isfinite(loss):
        print("loss is not finite")
        sys.exit(4)
    return loss


atexit.register(print, "closing the log")
for value in (1.0, 2.0, 0.0, 3.0):
    print(f"{step(torch.full((2,), value)).item():.4f}", flush=True)
