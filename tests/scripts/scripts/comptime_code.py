"""Code for compile time, in a compiled function.

first: one graph; code for compile time has no effect here
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | torch._dynamo.comptime has no effect on this compiler
report: compiled
"""

import torch
from torch._dynamo.comptime import comptime


@torch.compile(backend="eager")
def f(x):
    y = x * 2
    comptime.graph_break()
    return y + 1


comptime(lambda ctx: None, fallback_fn=lambda: print("in eager"))
print(f(torch.ones(2)).tolist())
