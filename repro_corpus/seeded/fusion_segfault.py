"""Joining the loops of the sine with those of its sum crashes.

    DYNAMO_FAULT='fusion-segfault' python fusion_segfault.py
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
