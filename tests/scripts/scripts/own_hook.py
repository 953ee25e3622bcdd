"""An error that the script's own `sys.excepthook` prints, with the frames it has.

exit: 1
first: the error that ended the script, and where
says: ZeroDivisionError: zero | own_hook.py
report: compiled
"""

import sys

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


def hook(kind, value, tb):
    names = []
    while tb:
        names.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    print("hook", kind.__name__, value, names, flush=True)


def deep(n):
    if n:
        deep(n - 1)
    raise ZeroDivisionError("zero")


sys.excepthook = hook
print(f(torch.ones(1)).item(), flush=True)
deep(2)
