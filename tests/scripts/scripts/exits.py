"""`sys.exit` with a code, and functions at exit.

exit: 3
first: the script ended with its own code 3
says: the script ended itself with exit code 3 at exits.py:17
report: compiled
"""

import atexit
import sys

import torch

f = torch.compile(lambda x: x + 1, backend="eager")
atexit.register(lambda: print("at exit", f(torch.ones(1)).item()))
print(f(torch.ones(1)).item())
sys.exit(3)
