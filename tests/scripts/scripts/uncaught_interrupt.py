"""Ctrl-C that nothing catches, after a compile: torch's report at exit runs code from text, after which Python exits with 1.

exit: 1
first: what was compiled until the interrupt
says: uncaught_interrupt.py interrupted, exit 1 | 1 function, 1 graph
report: compiled, breaks=0
"""

import atexit
import signal
import sys

import torch

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it is started in the background
atexit.register(lambda: print("at exit", sys.last_type is KeyboardInterrupt, flush=True))
step = torch.compile(lambda x: (x * 0.5).tanh(), backend="eager")
print(step(torch.zeros(2)).tolist())
signal.raise_signal(signal.SIGINT)
