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


def faults_per_call(**environment: str) -> float:
    env = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"} | environment
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout)


def test_results_are_faulted_in_once():
    assert faults_per_call() < 0.01 * PAGES


@pytest.mark.parametrize("setting", ["DYNAMO_KEEP_FREED_MEMORY=0", "MALLOC_TRIM_THRESHOLD_=131072"])
def test_the_option_and_the_users_own_threshold_are_honoured(setting):
    """In one process of three: a small block above the results keeps glibc from giving back what is below it."""
    name, _, value = setting.partition("=")
    assert any(faults_per_call(**{name: value}) > 0.5 * PAGES for _ in range(3))
