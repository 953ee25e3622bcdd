"""The negative half of a leaky ReLU is forgotten.

    DYNAMO_FAULT='dropped-mask' python dropped_mask.py
"""

import torch

import dynamo


def model(x, w):
    scores = x @ w.t()
    kept = torch.where(scores > 0, scores, scores * 0.01)
    return kept.softmax(1)


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
