"""a function under lru_cache runs again for arguments that it has seen."""

import functools

import torch

calls = []


@functools.lru_cache
def scale(n):
    calls.append(n)
    return n * 2


@torch.compile
def f(x):
    return x * scale(3) + scale(3)


f(torch.ones(2))
assert calls == [3], calls
