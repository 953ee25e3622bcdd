"""A script written for the first releases: `torch._dynamo` under its old names, a custom backend, explain and export."""

import torch
import torch._dynamo as dynamo
from torch._dynamo.utils import CompileProfiler, compile_times


def custom_backend(gm, example_inputs):
    print("custom backend called with", len(gm.graph.nodes), "nodes")
    return gm.forward


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def foo(x, y):
    return torch.sin(x) + torch.cos(y)


torch.manual_seed(0)
dynamo.config.cache_size_limit = 16
dynamo.reset()

opt_bar = dynamo.optimize(custom_backend)(bar)
a, b = torch.randn(10), torch.ones(10)
opt_bar(a, b)
opt_bar(a, -b)


@dynamo.optimize("eager", nopython=True)
def opt_foo(x, y):
    return foo(x, y)


print(opt_foo(a, b).shape)
try:
    dynamo.optimize("eager", nopython=True)(bar)(a, b)
except Exception as e:
    print("nopython:", str(e).splitlines()[0])

explanation, out_guards, graphs, ops_per_graph, break_reasons, verbose = dynamo.explain(bar, a, b)
print(explanation.splitlines()[0])
print(dynamo.explain(foo)(a, b).graph_count, "graph")

graph_module, guards = dynamo.export(foo, a, b)
print("exported", type(graph_module).__name__)

prof = CompileProfiler()
profiled = dynamo.optimize(prof)(foo)
for size in (3, 4, 5):
    profiled(torch.randn(size), torch.randn(size))
print(prof.report())

frozen = dynamo.run(opt_foo)
print(frozen(a, b).shape)
print("eager" in dynamo.list_backends(None))
print(len(compile_times()) > 0)
