"""The old decorators, as tutorials of torch 2.0 have them.

first: two graphs around one break
says: a graph break at old_api.py:17: graph break asked for | 2 graphs
report: compiled
"""

import torch
import torch._dynamo as dynamo

dynamo.reset()


@dynamo.optimize("eager")
def f(x):
    x = x * 2
    dynamo.graph_break()
    return x + 1


@dynamo.disable
def eager(x):
    return x - 1


print(f(torch.ones(1)).item(), eager(torch.ones(1)).item())
explained = dynamo.explain(lambda x: x.sin() + 1)(torch.ones(1))
print(explained.graph_count, explained.graph_break_count)
