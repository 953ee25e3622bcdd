"""A script that ends itself with SIGTERM and has a handler for it, as those under a scheduler do.

exit: 7
first: it ended with the code of its own handler
says: the script ended itself with exit code 7 at sigterm.py:19
report: compiled
every run
"""

import os
import signal
import sys

import torch


def stop(number, frame):
    print("saving a checkpoint")
    sys.exit(7)


signal.signal(signal.SIGTERM, stop)
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
