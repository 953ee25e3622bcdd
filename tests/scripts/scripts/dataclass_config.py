"""A model built from a dataclass of settings, with an enum that forward asks.

first: one graph for each activation
says: 1 function, 2 graphs, no breaks, no recompiles | Net.forward
report: compiled, breaks=0
"""

import dataclasses
import enum

import torch
from torch import nn


class Activation(enum.Enum):
    RELU = "relu"
    SWISH = "swish"


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = 4
    depth: int = 2
    activation: Activation = Activation.RELU
    residual: bool = True


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(nn.Linear(config.width, config.width) for _ in range(config.depth))

    def forward(self, x):
        for layer in self.layers:
            y = layer(x)
            y = y.relu() if self.config.activation is Activation.RELU else y * y.sigmoid()
            x = x + y if self.config.residual else y
        return x


for config in (Config(), dataclasses.replace(Config(), activation=Activation.SWISH, residual=False)):
    torch.manual_seed(0)
    net = torch.compile(Net(config), backend="eager")
    print(config.activation.name, f"{net(torch.ones(1, 4)).sum().item():.4f}")
