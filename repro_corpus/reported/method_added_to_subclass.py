"""an attribute added to a class hides that of its base and is not seen."""

import torch


class Base:
    scale = 2.0


class Config(Base):
    pass


config = Config()

f = torch.compile(lambda x: x * config.scale)
x = torch.arange(3.0)
f(x)
Config.scale = 5.0
torch.testing.assert_close(f(x), x * 5)
