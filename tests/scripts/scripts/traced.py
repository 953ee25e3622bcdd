"""Tracers of the interpreter around compiled calls: settrace, setprofile, tracemalloc, faulthandler; and what else a script can see of it.

first: it compiled once, tracers or not
says: compiled whole: 1 function
report: compiled, breaks=0
"""

import faulthandler
import gc
import sys
import threading
import tracemalloc

import torch


def f(x):
    y = x + 1
    for i in range(2):
        y = y * i
    return y


compiled = torch.compile(f, backend="eager")
lines = []


def tracer(frame, event, arg):
    if frame.f_code.co_filename != __file__:
        return None
    if event == "line":
        lines.append(frame.f_lineno)
    return tracer


compiled(torch.ones(2))
sys.settrace(tracer)
f(torch.ones(2))
sys.settrace(None)
print(sys.gettrace(), len(lines))
calls = []
sys.setprofile(lambda frame, event, arg: calls.append(event) if event == "call" and frame.f_code is f.__code__ else None)
f(torch.ones(2))
sys.setprofile(None)
print(calls)
tracemalloc.start()
compiled(torch.ones(2))
print(tracemalloc.is_tracing(), len(tracemalloc.take_snapshot().traces) > 0)
tracemalloc.stop()
faulthandler.enable()
print(faulthandler.is_enabled(), gc.isenabled(), sys.getrecursionlimit(), threading.active_count())
print(sys.displayhook is sys.__displayhook__, sys.excepthook is sys.__excepthook__, sys.stdout is sys.__stdout__)
print(sys.unraisablehook is sys.__unraisablehook__, threading.excepthook is threading.__excepthook__)
