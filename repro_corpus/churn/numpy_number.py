"""Weights from NumPy are its own scalars, each another value."""

import numpy as np
import torch


def scaled(x, by):
    return x * by


run = torch.compile(scaled, backend="eager")
for weight in np.linspace(0.5, 1.0, 5):
    print(run(torch.ones(3), weight).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number argument | by | 8 | 12 | torch.tensor(weight, dtype=torch.float64) | yes
