"""The tutorial's `bar`: a branch on the value of a tensor splits it into three graphs.

    dynamo-debug explain repro_corpus/examples/graph_break.py
"""

import torch


def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(y)
    return a + b


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


torch.manual_seed(0)
fast_foo = torch.compile(foo)
fast_bar = torch.compile(bar)
print("foo", fast_foo(torch.randn(10, 10), torch.randn(10, 10)).sum().item())
b = torch.ones(10)
for sign in (1, -1):
    print("bar", fast_bar(torch.randn(10), sign * b).sum().item())
