"""A package started with `-m` that compiles in its `__init__`, from which its `__main__` imports.

run: -m runs_once --json
first: the function of the package compiles once
says: -m runs_once finished | compiled whole: 1 function, 1 graph, no breaks, no recompiles | __init__.py:8
report: compiled, breaks=0, frame=scaled
"""

import os
import sys

import torch

from . import scaled

print("main", __name__, __package__, __spec__.name, os.path.basename(sys.argv[0]), sys.argv[1:])
print("in main", scaled(torch.ones(2)).tolist())
