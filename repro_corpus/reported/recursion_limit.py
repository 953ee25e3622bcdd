"""sys.getrecursionlimit is a constant of the first call."""

import sys

import torch

f = torch.compile(lambda x: x + (sys.getrecursionlimit() > 5000))
x = torch.arange(3.0)
f(x)
sys.setrecursionlimit(6000)
torch.testing.assert_close(f(x), x + 1)
