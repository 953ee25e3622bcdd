"""__del__ of an object that a function drops does not run before the function goes on."""

import torch


class Kept:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append(1)


def f(x):
    log = []
    kept = Kept(log)
    del kept
    return x + len(log)


x = torch.ones(2)
torch.testing.assert_close(torch.compile(f)(x), f(x))
