"""The error function behind an operator of the program's own gives NaN above 0.5.

    DYNAMO_FAULT='nan:op=erf' python own_operator.py
"""

import torch

import dynamo


@torch.library.custom_op("own::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by + 1


@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


def model(x, w):
    y = scaled(torch.sin(x) * w, 3.0)
    return (torch.erf(y) + w).sum(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
