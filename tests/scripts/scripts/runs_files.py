"""Files and modules that the script writes and runs as `__main__` and under other names.

first: what was run that way is compiled
says: compiled whole: 1 function, 2 graphs | lambda  inner.py:4
report: compiled, breaks=0
"""

import os
import runpy
import sys
import tempfile

import torch

TEXT = """
import sys, torch
print(__name__, sys.argv[1:])
result = torch.compile(lambda x: x * 3, backend="eager")(torch.ones(1)).item()
"""

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "inner.py")
    with open(path, "w") as f:
        f.write(TEXT)
    print(runpy.run_path(path, run_name="__main__")["result"])
    sys.path.insert(0, folder)
    sys.argv[1:] = ["again"]
    print(runpy.run_module("inner", alter_sys=True)["result"])
print(__name__, sys.modules["__main__"].__dict__ is globals())
