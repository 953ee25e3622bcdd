"""Flex attention with a score function, compiled by the line its documentation shows.

first: the attention ran outside of graphs, and torch's engine would capture it
says: FlexAttentionHOP | torch.compile captures it as part of the graph
report: compiled
"""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def causal(b, h, q, k):
    return q >= k


def bias(score, b, h, q, k):
    return score + (q - k) * 0.01


torch.manual_seed(0)
q, k, v = (torch.randn(1, 2, 16, 8) for _ in range(3))
mask = create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)
attend = torch.compile(flex_attention, backend="eager")
print(f"{attend(q, k, v, score_mod=bias, block_mask=mask).sum().item():.3f}")
