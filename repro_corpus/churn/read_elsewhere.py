"""A step is passed on to a method that has a parameter of the same name, at another place."""

import torch


class Schedule:
    def at(self, t):
        return 0.5**t


class Walk:
    def __init__(self):
        self.schedule = Schedule()

    @torch.compile(backend="eager")
    def step(self, x, t):
        return x * self.schedule.at(t)


walk = Walk()
for t in range(5):
    print(walk.step(torch.ones(2), t).tolist())

# expect: cause | value | read at line | changed at line | fix | verified
# expect: number argument | t | 8 | 21 | torch.tensor(t) | yes
