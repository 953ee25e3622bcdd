"""Threads that end with `SystemExit` and with an error: neither ends the script.

first: the script finished; what its threads compiled counts
says: compiled whole: 1 function
report: compiled
"""

import threading

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


def leaves():
    print(f(torch.ones(2)).tolist())
    raise SystemExit(3)


def fails():
    f(torch.ones(2))
    raise ValueError("in a thread")


for target in (leaves, fails):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
print("done")
