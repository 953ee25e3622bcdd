"""Hooks of the script for what nobody catches: of the program, of a thread, and of a finalizer.

exit: 1
first: the script failed with its own error, made of one that a compiled function raised
says: the script failed: SystemError: wrapped at excepthooks.py:46
report: compiled
"""

import atexit
import sys
import threading
import traceback

import torch


def hook(kind, error, tb):
    print("hook:", kind.__name__, error, [f.name for f in traceback.extract_tb(tb)])
    sys.__excepthook__(kind, error, tb)


class Dropped:
    def __del__(self):
        raise ValueError("dropped")


@torch.compile(backend="eager")
def positive(x):
    if x.sum() > 0:
        return x
    raise LookupError("inner")


sys.excepthook = hook
threading.excepthook = lambda given: print("thread:", given.exc_type.__name__, given.exc_value)
sys.unraisablehook = lambda given: print("unraisable:", type(given.exc_value).__name__)
atexit.register(print, "last")
Dropped()
thread = threading.Thread(target=lambda: positive(-torch.ones(1)))
thread.start()
thread.join()
try:
    positive(-torch.ones(1))
except LookupError as e:
    e.add_note("a note")
    raise SystemError("wrapped") from e
