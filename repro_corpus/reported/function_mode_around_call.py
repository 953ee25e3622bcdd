"""a torch function mode entered around a compiled function is not asked once."""

import torch
from torch.overrides import TorchFunctionMode


class Twice(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.Tensor.view else out


f = torch.compile(lambda x: x.view(-1))
x = torch.ones(2, 2)
with Twice():
    y = f(x)
torch.testing.assert_close(y, torch.full((4,), 2.0))
