"""What `torch.compiler.disable`, `allow_in_graph`, `is_compiling` and `assume_constant_result` do to a capture."""

import torch


@torch.compiler.disable
def logged(x):
    print("logged mean", round(x.mean().item(), 3))
    return x


@torch.compiler.disable(recursive=False)
def shallow(x):
    return inner(x) + 1


def inner(x):
    return torch.tanh(x)


@torch.compiler.assume_constant_result
def factor():
    return 3


@torch.compile
def program(x):
    x = torch.sin(x)
    x = logged(x)
    x = shallow(x)
    if torch.compiler.is_compiling():
        x = x * factor()
    return torch.cos(x)


torch.manual_seed(0)
print(program(torch.randn(8)).shape, torch.compiler.is_compiling())
