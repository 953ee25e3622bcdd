"""Cells of a notebook, of which one is edited and run again.

first: the function of each cell, with the lines of its cell, and the break of the first
says: a graph break at 1.py:5 | norm 1.py:3 | norm 3.py:3
report: compiled, some-breaks
"""

import linecache

import torch

FIRST = "import torch\n\n@torch.compile(backend='eager')\ndef norm(x):\n    print('shape', tuple(x.shape))\n    return x / x.norm()\n"
CELLS = [FIRST, "print(norm(torch.ones(4)).tolist())\n", FIRST.replace("    print('shape', tuple(x.shape))\n", ""), "print(norm(torch.ones(4)).tolist())\n"]
space = {"__name__": "__main__"}
for number, text in enumerate(CELLS, 1):
    name = f"/tmp/ipykernel_7/{number}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
