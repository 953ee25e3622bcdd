"""Cells of a notebook: sources that are no files, with their lines in linecache.

first: the break, with the line of its cell
says: a graph break at <ipython-input-0>:7: output to the terminal or a log: print | print('in the cell')
report: compiled, breaks=1
every run
"""

import linecache

import torch

CELLS = [
    "import torch\n\n\n@torch.compile(backend='eager')\ndef f(x):\n    y = x + 1\n    print('in the cell')\n    return y * 2\n",
    "print(f(torch.ones(2)).tolist())\n",
]
space = {"__name__": "__main__"}
for number, text in enumerate(CELLS):
    name = f"<ipython-input-{number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), space)
