"""Handlers for signals of its own, raised while it compiles.

first: all is compiled, the handlers are the script's
says: sine is compiled 2 times because x.size(0) changes
report: compiled, recompiles=sine
"""

import os
import signal

import torch

got = []
signal.signal(signal.SIGUSR1, lambda number, frame: got.append(signal.Signals(number).name))
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda number, frame: got.append(signal.Signals(number).name))


@torch.compile(backend="eager")
def sine(x):
    return x.sin()


for size in (1, 2):
    sine(torch.ones(size))
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGTERM)
print(got)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("caught")
