"""A script started with TORCH_LOGS, as one does when something is slow.

env: TORCH_LOGS=graph_breaks,recompiles,+dynamo
first: the break that the log would tell
says: a graph break at torch_logs.py:14: value of a tensor needed
report: compiled, breaks=1
"""

import torch


@torch.compile(backend="eager")
def f(x):
    scale = x.abs().max().item()
    return x / scale


for n in (2, 3):
    print(f(torch.arange(1.0, n + 1)).tolist())
