"""A profile of a compiled loop by cProfile, and statements that cProfile and timeit run in `__main__`.

first: one graph; the profilers saw the script's own functions
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | step
report: compiled, breaks=0
"""

import cProfile
import io
import pstats
import timeit

import torch


@torch.compile(backend="eager")
def step(x):
    return (x * x).sum()


def loop(n):
    return sum(step(torch.full((3,), float(i))).item() for i in range(n))


profile = cProfile.Profile()
print(profile.runcall(loop, 4))
out = io.StringIO()
pstats.Stats(profile, stream=out).strip_dirs().print_stats("loop")
print([line.split("(")[-1] for line in out.getvalue().splitlines() if "cprofiled.py" in line and "genexpr" not in line])
profile.run("answer = loop(3)")
print(answer)  # noqa: F821  # made by the line above
print(timeit.timeit("loop(2)", setup="from __main__ import loop", number=2) > 0)
