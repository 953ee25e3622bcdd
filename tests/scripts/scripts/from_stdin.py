"""A script piped into the interpreter, as `ssh host python - args < script` does.

run: - --steps 2
stdin: from_stdin.py
first: one function, by the line of what came from standard input
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | halve <stdin>:16
report: compiled, breaks=0
every run
"""

import sys

import torch


@torch.compile(backend="eager")
def halve(x):
    return x / 2


x = torch.full((2,), 8.0)
for _ in range(int(sys.argv[sys.argv.index("--steps") + 1])):
    x = halve(x)
print(__name__, sys.argv, x.tolist())
