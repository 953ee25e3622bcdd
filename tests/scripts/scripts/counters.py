"""A test helper that asks the compiler's counters.

first: f was compiled twice, for two shapes
says: f is compiled 2 times because x.size(0) changes | x.size(0) = 3, 4
report: compiled, recompiles=f
every run
"""

import torch
import torch._dynamo
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend
from torch._dynamo.utils import counters

torch._dynamo.reset()
counters.clear()
count = CompileCounter()


@torch.compile(backend=count, dynamic=False)
def f(x):
    return x.sin() + 1


f(torch.ones(3)), f(torch.ones(4)), f(torch.ones(3))
print(count.frame_count, count.op_count)
other = CompileCounterWithBackend("eager")
torch.compile(f._torchdynamo_orig_callable if hasattr(f, "_torchdynamo_orig_callable") else f.__wrapped__, backend=other)(torch.ones(2))
print(other.frame_count, len(other.graphs))
print(sorted(counters["graph_break"].items()))
print(counters["stats"]["unique_graphs"] > 0)
