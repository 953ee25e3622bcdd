"""Wrong modes, options and backends: every mistake is caught where torch catches it.

first: nothing was compiled but the last call
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled
"""

import torch
from torch._dynamo.exc import InvalidBackend


def f(x):
    return x + 1


def tried(**how):
    try:
        return torch.compile(f, **how)(torch.ones(1)).item()
    except InvalidBackend:
        return "no such backend"
    except RuntimeError:
        return "RuntimeError"


print(tried(mode="max-autotone"))
print(tried(options={"max_autotone": True}))
print(tried(options={"max_autotune": "yes"}))
print(tried(mode="default", options={"max_autotune": False}))
print(tried(backend="induktor"))
print(tried(backend="eager"))
