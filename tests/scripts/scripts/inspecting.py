"""A program that looks at modules and sources, as loggers, debuggers and lazy importers do.

first: one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled
"""

import inspect
import sys

import torch
import torch._dynamo


@torch.compile(backend="eager")
def f(x):
    return x.relu()


print(f(torch.ones(1)).item())
print(inspect.getfile(torch._dynamo).endswith("__init__.py"))
for name, module in sorted(sys.modules.items()):
    if name.startswith("torch._dynamo"):
        inspect.getmodule(module), inspect.isclass(module), getattr(module, "__path__", None), getattr(module, "__warningregistry__", None)
        inspect.getfile(module)
print(inspect.getsource(f).splitlines()[-1].strip())
print(inspect.stack()[0].function)
