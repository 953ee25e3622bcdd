"""__getattr__ of a class is replaced and nothing is compiled again."""

import torch


class Config:
    def __getattr__(self, name):
        return 2.0


config = Config()
f = torch.compile(lambda x: x * config.scale)
x = torch.ones(2)
f(x)
Config.__getattr__ = lambda self, name: 5.0
torch.testing.assert_close(f(x), x * 5)
