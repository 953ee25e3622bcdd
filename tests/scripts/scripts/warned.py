"""Code that warns in a compiled function, run with warnings as a script has them configured.

env: PYTHONWARNINGS=error::UserWarning:__main__
first: the warning is where the graph ends
says: a graph break at warned.py:17
report: compiled
"""

import warnings

import torch


@torch.compile(backend="eager")
def normalise(x, eps=0.0):
    if eps == 0.0:
        warnings.warn("eps is zero", stacklevel=1)
    return x / (x.norm() + eps)


for eps in (0.0, 1.0):
    try:
        print([f"{v:.3f}" for v in normalise(torch.ones(4), eps).tolist()])
    except UserWarning as warning:
        print("warned:", warning)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    normalise(torch.ones(4))
print([str(w.message) for w in caught])
