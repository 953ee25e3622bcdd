"""Ctrl-C in the middle of training; the script saves and leaves with 130.

exit: 130
first: the script ended with its own 130; what was compiled until then
says: the script ended itself with exit code 130 at interrupted.py:24 | 1 function, 1 graph
report: compiled, breaks=0
"""

import signal
import sys

import torch

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it is started in the background
step = torch.compile(lambda x: (x * 0.5).tanh(), backend="eager")
x = torch.ones(2)
try:
    for number in range(10**6):
        x = step(x)
        if number == 100:
            signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("saved after", number, "steps")
    sys.exit(130)
