"""Alarms that ring while something compiles: one handler raises, the next compiles a function itself.

first: the first alarm ended the call and not the program; the next call was compiled
says: by_newton  alarmed.py:32  DD032 a handler raised TimeoutError
report: compiled, breaks=0
"""

import signal

import torch


def ring(number, frame):
    raise TimeoutError("took too long")


def halve(number, frame):
    halves.append(half(torch.ones(2)).tolist())


def slow(gm, inputs):
    """A backend that takes so long that the alarm rings."""
    signal.raise_signal(signal.SIGALRM)
    return gm.forward


@torch.compile(backend="eager")
def half(x):
    return x / 2


@torch.compile(backend=slow)
def by_newton(x):
    for _ in range(4):
        x = (x + 2 / x) / 2
    return x


halves = []
signal.signal(signal.SIGALRM, ring)
try:
    by_newton(torch.ones(1))
except Exception as e:
    print("took too long" in str(e))
signal.signal(signal.SIGALRM, halve)
print(f"{by_newton(torch.ones(1)).item():.4f}", halves)
