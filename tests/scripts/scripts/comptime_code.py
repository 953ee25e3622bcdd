"""Code for compile time, in a compiled function.

first: one graph
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
