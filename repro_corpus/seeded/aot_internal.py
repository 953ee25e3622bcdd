"""A check of the tracer's own fails at the sine.

    DYNAMO_FAULT='aot-internal' python aot_internal.py
"""

import torch

import dynamo


def model(x, w):
    gate = torch.sigmoid(w - x.mean(1, keepdim=True))
    z = torch.sin(x * gate)
    return (z + w).exp().sum(0) - gate.sum(0)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
dynamo.config.suppress_errors = False
print(dynamo.compile(model)(x, w).shape)
