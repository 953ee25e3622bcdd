"""Training with anomaly detection on, because the loss becomes nan.

first: the step is one graph, and detection does not keep it from being compiled
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled, breaks=0
"""

import warnings

import torch

warnings.simplefilter("ignore")
torch.autograd.set_detect_anomaly(True)


@torch.compile(backend="aot_eager")
def loss_of(x):
    return (x.sqrt() * 0).sum()


for value in (1.0, 0.0):
    x = torch.full((3,), value, requires_grad=True)
    try:
        loss_of(x).backward()
        print(x.grad.tolist())
    except RuntimeError as e:
        print("nan" if "nan" in str(e) else e)
