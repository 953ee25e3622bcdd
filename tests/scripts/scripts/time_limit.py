"""A time limit by SIGALRM around a compiled loop, and the exit of the last good result.

first: one graph; the alarm came between calls and changed nothing
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | refine
report: compiled, breaks=0
"""

import signal

import torch


class OutOfTime(Exception):
    pass


def ring(number, frame):
    raise OutOfTime


@torch.compile(backend="eager")
def refine(x):
    return (x + 2 / x) / 2


signal.signal(signal.SIGALRM, ring)
x = refine(torch.tensor(1.0))
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while True:
        x = refine(x)
except OutOfTime:
    print("out of time:", f"{x.item():.5f}")
