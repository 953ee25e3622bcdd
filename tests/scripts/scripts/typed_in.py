"""Lines that a console of the script's own runs, one by one, as a notebook kernel does.

first: a size changes; the function that was typed in is compiled too
says: lambda is compiled 2 times because x.size(0) changes | triple  <console>:1
report: compiled, breaks=0
"""

import code

import torch

LINES = """
def triple(x):
    return less(x) * 3

print(triple(torch.ones(2) * 2).tolist())
print(torch.compile(triple, backend='eager')(torch.ones(1)).tolist())
1 / 0
"""

less = torch.compile(lambda x: x - 1, backend="eager", dynamic=False)
console = code.InteractiveConsole({"less": less, "torch": torch, "__name__": "__console__"})
for line in LINES.splitlines():
    console.push(line)
print(eval("less(torch.zeros(1)).item()"))
