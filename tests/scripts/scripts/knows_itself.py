"""A script that looks at itself: its name, file, source, frames and arguments.

run: knows_itself.py one --two
first: it finds what it finds under python, and is compiled whole
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled, breaks=0
"""

import inspect
import os
import sys
import traceback

import torch


def main():
    """Add one."""
    return torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item()


here = os.path.abspath(__file__)
print(sys.argv, os.path.basename(__file__), __name__, __spec__, __package__)
print(inspect.getsource(main).splitlines()[1].strip(), inspect.getsourcefile(main) == here, inspect.getmodule(main).__name__)
print(sys.modules["__main__"].main is main, sorted(name for name in globals() if name.startswith("__")))
print(sys.path[0] == os.path.dirname(here))
print(main())
