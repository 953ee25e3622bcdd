"""A check of the printer's own fails.

    DYNAMO_FAULT='kernels-internal' python kernels_internal.py
"""

import torch

import dynamo


def model(x, w):
    waves = torch.sin(x * w)
    total = waves.sum(1, keepdim=True)
    largest = (x + w).amax(1, keepdim=True)
    return (waves / total + largest).tanh()


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
