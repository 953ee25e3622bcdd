"""A script that looks at who called it: nobody, as under python.

first: it finds the frames that it finds under python, and is compiled whole
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled, breaks=0
"""

import faulthandler
import inspect
import os
import sys
import tempfile
import traceback

import torch


@torch.compile(backend="eager")
def double(x):
    return x * 2


def callers():
    return [(os.path.basename(frame.filename), frame.function) for frame in inspect.stack()]


def deepest(depth=2):
    try:
        return deepest(depth + 1)
    except RecursionError:
        return depth


print(sys.getrecursionlimit() - deepest())
print(double(torch.ones(1)).item(), callers())
print(len(traceback.format_stack()), sys._getframe().f_back)
with tempfile.TemporaryFile("w+") as file:
    faulthandler.dump_traceback(file, all_threads=False)
    file.seek(0)
    print(len(file.readlines()))
try:
    1 / 0
except ZeroDivisionError as e:
    print(traceback.format_exception(e)[1].count("File"), e.__traceback__.tb_frame is sys._getframe())
