"""The default of a field in the body of a class is what the program goes on from."""

from dataclasses import dataclass

import torch


@dataclass
class Config:
    scale: float = 1.0


config = Config()


@torch.compile(backend="eager")
def layer(x):
    return x * config.scale


for step in range(5):
    config.scale *= 0.5
    print(layer(torch.ones(3)).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number attribute | config.scale | 18 | 22 | torch.tensor(1.0, dtype=torch.float64) | yes
