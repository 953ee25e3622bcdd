import sys

import torch

print("package", __name__, sys.argv, "__file__" in vars(sys.modules["__main__"]))


@torch.compile(backend="eager")
def scaled(x):
    return x * 2


print("in the package", scaled(torch.ones(2)).tolist())
