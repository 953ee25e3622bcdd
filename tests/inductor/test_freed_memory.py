"""Results of several MB lie in pages that the process already has: page faults are counted, by the kernel, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MB = 1 << 20
PAGES = 4 * 3 * MB // 4096  # of the four results of one call
PR_SET_THP_DISABLE = 41  # <linux/prctl.h>: one fault per 4 KB, whatever this machine's policy for huge pages is

PROGRAM = f"""
import ctypes, json, resource
import torch
import dynamo
ctypes.CDLL(None).prctl({PR_SET_THP_DISABLE}, 1, 0, 0, 0)
@dynamo.compile(backend="inductor")
def fn(x):
    return x + 1, x + 2, x + 3, x + 4
x = torch.zeros(3 * {MB} // 4)
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
with torch.no_grad():
    for _ in range(5):
        fn(x)
    before = faults()
    for _ in range(20):
        results = fn(x)
        del results
print(json.dumps((faults() - before) / 20))
"""


def output(program: str, **environment: str) -> str:
    env = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, timeout=300).stdout


def test_results_are_faulted_in_once():
    assert json.loads(output(PROGRAM)) < 0.01 * PAGES


THRESHOLD = f"""
import ctypes
import torch
import dynamo
dynamo.compile(lambda x: x + 1, backend="inductor")(torch.zeros(3))
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
class Counts(ctypes.Structure):  # <malloc.h>: struct mallinfo
    _fields_ = [(name, ctypes.c_int) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
libc.mallinfo.restype = Counts
before = libc.mallinfo().hblks
libc.malloc(24 * {MB})
print(libc.mallinfo().hblks - before)
"""


@pytest.mark.parametrize("setting, mapped", [
    ("", 0),
    ("DYNAMO_KEEP_FREED_MEMORY=0", 1),
    ("MALLOC_TRIM_THRESHOLD_=131072", 1),
])  # fmt: skip
def test_the_option_and_the_users_own_threshold_are_honoured(setting, mapped):
    """The two thresholds of glibc move together. Whether a block of 24 MB gets a mapping of its own shows one of them, whatever
    lies at the end of the heap."""
    name, _, value = setting.partition("=")
    assert int(output(THRESHOLD, **({name: value} if name else {}))) == mapped
