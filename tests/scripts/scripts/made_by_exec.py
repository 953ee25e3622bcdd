"""Functions made by exec, eval and FunctionType, with no file to show.

first: three functions compiled, the print of one broke its graph
says: compiled  3 functions | print
report: compiled, breaks=1, frame=made
"""

import types

import torch

space = {"torch": torch}
exec("def made(x):\n    y = x + 1\n    print(y)\n    return y * 2", space)
print(torch.compile(space["made"], backend="eager")(torch.ones(1)))
by_eval = eval("lambda x: x.relu() + 1")
print(torch.compile(by_eval, backend="eager")(torch.ones(1)))
code = compile("def built(x): return x - 1", "no_such_file.py", "exec").co_consts[0]
print(torch.compile(types.FunctionType(code, space), backend="eager")(torch.ones(1)))
