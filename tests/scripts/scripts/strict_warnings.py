"""Warnings are errors from the first line on, then collected, then shown once; logging captures them too.

first: a graph break where the script warns
says: a graph break at strict_warnings.py:21
report: compiled
"""

import logging
import sys
import warnings

warnings.simplefilter("error")
import torch

logging.captureWarnings(True)
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s:%(name)s")


@torch.compile(backend="eager")
def old_way(x):
    warnings.warn("use another", DeprecationWarning)
    return x + 1


with warnings.catch_warnings(record=True) as got:
    warnings.simplefilter("always")
    old_way(torch.ones(1))
    old_way(torch.ones(1))
print([str(w.message) for w in got])
try:
    old_way(torch.ones(1))
except DeprecationWarning as e:
    print("raised:", e)
warnings.resetwarnings()
warnings.filterwarnings("once")
old_way(torch.ones(1))
old_way(torch.ones(1))
print(len(warnings.filters))
