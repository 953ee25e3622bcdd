"""Frames that break on their first call only: what is set up then, flags, tables that fill, warnings."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program


@program("", "a cache that the first call fills, with a break inside")
def filled_by_first_call(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None

        def setup(self):
            if self.cache is None:
                print("set up")
                self.cache = torch.ones(3)

        def forward(self, x):
            y = x * 2
            self.setup()
            return y + self.cache

    m = Net()
    f = compile(m)
    out = [f(torch.ones(3)) for _ in range(3)]
    m.cache = None
    return out, [f(torch.ones(3)) for _ in range(2)]


@program("", "a flag, an attribute that is missing, a table without the key, an empty list, a global")
def other_facts(compile):
    class State:
        ready = False

    state, table, seen = State(), {}, []

    def flag():
        if not state.ready:
            print("flag")
            state.ready = True

    def attribute():
        if not hasattr(state, "scale"):
            print("attribute")
            state.scale = 2

    def key(k):
        if k not in table:
            print("key")
            table[k] = torch.ones(3) * len(table)
        return table[k]

    def empty():
        if not seen:
            print("empty")
            seen.append(1)

    @compile
    def f(x):
        flag()
        x = x + 1
        attribute()
        x = x * state.scale
        empty()
        return x * key("a")

    return [f(torch.ones(3)) for _ in range(4)], table, seen, vars(state)


@program("", "a flag that goes on and off, with a break behind either side")
def goes_on_and_off(compile):
    class State:
        loud = True

    def say(x):
        if State.loud:
            print("loud")
            return x + 1
        print("quiet")
        return x - 1

    f = compile(lambda x: say(x * 2) * 3)
    out = []
    for State.loud in (True, False, True, False, True):
        out.append(f(torch.ones(3)))
    return out


@program("", "every third call says something")
def every_third(compile):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def log(self, x):
            if self.step % 3 == 0:
                print("step", self.step)
            self.step += 1

        def forward(self, x):
            y = x.sin()
            self.log(y)
            return y * 2

    m = Net()
    f = compile(m)
    return [f(torch.ones(3)) for _ in range(10)], m.step
