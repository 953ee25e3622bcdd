"""A module with submodules, parameters and a buffer, captured as one graph."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * self.scale


torch.manual_seed(0)
model = torch.compile(Model().eval())
with torch.no_grad():
    print(model(torch.randn(2, 16)).shape)
    print(model(torch.randn(2, 16)).shape)
