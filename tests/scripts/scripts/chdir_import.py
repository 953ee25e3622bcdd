"""A script that changes its folder, puts '' on the path and imports a module it has just written there.

first: the function of the written module is compiled
says: 2 functions
report: compiled, frame=g
"""

import os
import sys
import tempfile

import torch

WRITTEN = """
import torch


@torch.compile(backend="eager")
def g(x):
    return x - 1
"""


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "made_late.py"), "w") as file:
        file.write(WRITTEN)
    os.chdir(folder)
    sys.path.insert(0, "")
    import made_late

    print(made_late.g(f(torch.ones(1))).item(), os.path.basename(made_late.__file__))
    os.chdir("/")
