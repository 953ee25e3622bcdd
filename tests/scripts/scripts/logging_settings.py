"""Logging switched on as the documentation says, and a logger of the program's own.

first: one break, at the print
says: a graph break at logging_settings.py:21: output to the terminal or a log: print
report: compiled, breaks=1
"""

import logging

import torch
import torch._logging

logging.basicConfig(format="%(name)s %(message)s")
torch._logging.set_logs(dynamo=logging.ERROR, graph_breaks=False, recompiles=False, inductor=logging.ERROR)
torch._logging.set_logs()


@torch.compile(backend="eager")
def f(x):
    y = x + 1
    print("inside")
    return y * 2


print(f(torch.ones(2)).tolist())
