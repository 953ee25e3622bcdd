"""A function traced by TorchScript after it was compiled, and a compiled function inside a trace.

first: one graph, of the call outside of the trace
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled
"""

import warnings

import torch

warnings.simplefilter("ignore")


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


print(f(torch.ones(2)).tolist())
traced = torch.jit.trace(torch.nn.Linear(2, 2).eval(), torch.ones(1, 2))
print(tuple(traced(torch.zeros(3, 2)).shape))
