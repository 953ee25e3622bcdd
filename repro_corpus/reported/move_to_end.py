"""move_to_end of an OrderedDict of the caller is not seen outside."""

import collections

import torch


@torch.compile
def f(cache, x):
    cache.move_to_end("a")
    return x + cache["a"]


cache = collections.OrderedDict(a=1, b=2, c=3)
f(cache, torch.ones(2))
assert list(cache) == ["b", "c", "a"], list(cache)
