"""A backend of the script's own, on top of one looked up by name.

first: one graph of two operations went to the backend
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | 2 ops
report: compiled, breaks=0
every run
"""

import torch
from torch._dynamo import lookup_backend, register_backend


@register_backend
def counting(gm, example_inputs):
    print(len([n for n in gm.graph.nodes if n.op == "call_function"]), "operations")
    return lookup_backend("eager")(gm, example_inputs)


print(torch.compile(lambda x: (x + 1).relu(), backend="counting")(torch.ones(1)).item())
