"""finally of a generator that a loop left with break."""

import torch


def f(x):
    seen = []

    def numbers():
        try:
            yield 1
            yield 2
        finally:
            seen.append(10)

    for n in numbers():
        x = x + n
        break
    return x + sum(seen)


x = torch.ones(2)
torch.testing.assert_close(torch.compile(f)(x), f(x))
