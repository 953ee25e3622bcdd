"""The settings are a class that is made anew for every call."""

import torch


@torch.compile(backend="eager")
def apply(x, settings):
    return x * settings.scale


def settings():
    class Settings:
        scale = 2.0

    return Settings()


for step in range(4):
    print(apply(torch.ones(3), settings()).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: new object | settings | 8 | 19 | before the loop of line 18 | yes
