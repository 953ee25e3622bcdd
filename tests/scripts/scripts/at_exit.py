"""Code that runs when the interpreter ends: `atexit` and a thread that is still at work.

first: what ends the script is compiled as what begins it
says: compiled whole: 1 function
report: compiled, breaks=0
"""

import atexit
import threading

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


def late():
    done.wait()
    print("thread", f(torch.ones(1)).item())


atexit.register(lambda: print("registered first", f(torch.ones(1)).item()))
atexit.register(print, "registered last")
done = threading.Event()
threading.Thread(target=late).start()
print(f(torch.ones(1)).tolist())
done.set()
