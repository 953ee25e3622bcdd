"""Attention that should not look ahead does.

    DYNAMO_FAULT='dropped-mask' python dropped_mask_causal.py
"""

import torch

import dynamo


def model(x, w):
    scores = x @ w.t()
    rows = torch.arange(8)
    causal = rows[:, None] >= rows[None, :]
    scores = torch.where(causal, scores, torch.full_like(scores, -1e9))
    return scores.softmax(-1) @ w


torch.manual_seed(0)
x, w = torch.randn(8, 16), torch.randn(8, 16)
torch.testing.assert_close(dynamo.compile(model)(x, w), model(x, w), atol=1e-3, rtol=1e-3)
print("healthy")
