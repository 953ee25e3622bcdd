"""A fork that compiles in the child alone.

first: what was compiled, and in which process
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles (in 1 child process)
report: compiled, children=1
every run
"""

import os

import torch


@torch.compile(backend="eager")
def f(x):
    return x + 1


pid = os.fork()
if not pid:
    os._exit(int(f(torch.ones(1)).item()))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
