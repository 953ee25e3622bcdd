"""torch.func.jvp ignores the custom jvp of an autograd.Function."""

import torch


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def jvp(ctx, t):
        return t * 100


f = torch.compile(lambda x: torch.func.jvp(Odd.apply, (x,), (x,))[1])
torch.testing.assert_close(f(torch.ones(3)), torch.full((3,), 100.0))
