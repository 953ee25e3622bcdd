"""A time limit by SIGALRM around a compiled loop, and the exit of the last good result.

first: one graph; the alarm came between calls and changed nothing
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | refine
report: compiled, breaks=0
"""

import signal

import torch

late = []


def ring(number, frame):
    late.append(number)


@torch.compile(backend="eager")
def refine(x):
    return (x + 2 / x) / 2


signal.signal(signal.SIGALRM, ring)
x = refine(torch.tensor(1.0))
signal.setitimer(signal.ITIMER_REAL, 0.2)
while not late:
    x = refine(x)
print("out of time:", f"{x.item():.5f}")
