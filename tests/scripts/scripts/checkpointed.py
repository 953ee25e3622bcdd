"""A transformer whose blocks are checkpointed in training.

first: checkpointed blocks are part of one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | Model.forward
report: compiled, breaks=0
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.feed(x)


class Model(nn.Module):
    def __init__(self, width=8, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return x


torch.manual_seed(0)
model = Model()
fast = torch.compile(model, backend="aot_eager")
loss = fast(torch.randn(2, 5, 8)).pow(2).mean()
loss.backward()
print(f"{loss.item():.4f}", f"{model.blocks[0].feed[0].weight.grad.norm().item():.4f}")
