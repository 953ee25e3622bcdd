"""Output that can be nothing but ASCII, as in some containers; the report is spelled in it, too.

env: PYTHONIOENCODING=ascii
first: one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | + f
report: compiled, breaks=0
"""

import sys

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2


print(sys.stdout.encoding, sys.stdout.errors, f(torch.ones(1)))
