"""Integers of more digits than Python writes out: given, read, computed, kept as keys, and said by the program itself."""

from __future__ import annotations

import torch

from repro_corpus.program import program

LARGE = 10**5000 + 1
WEIGHTS = {LARGE: 2, LARGE + 1: 3}


def shown(value):
    """The same with integers as hexadecimal text, which any number has."""
    if isinstance(value, dict):
        return {shown(k): shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shown(v) for v in value]
    return hex(value) if type(value) is int else value


class Holder:
    count = LARGE


@program("", "arguments, attributes and globals, and others at the next calls")
def read(compile):
    def of_argument(x, n):
        return x * (n % 7), n + 1, n

    def of_attribute(x, holder):
        return x + holder.count % 3, holder.count

    @compile
    def of_global(x):
        return x * (LARGE % 5), LARGE, WEIGHTS[LARGE]

    holder = Holder()
    out = [of_global(torch.ones(2)) for _ in range(2)]
    for function, make in ((of_argument, lambda k: LARGE + k), (of_attribute, lambda k: setattr(holder, "count", LARGE + k) or holder)):
        compiled = compile(function)
        out += [compiled(torch.ones(2), make(k)) for k in (0, 0, 1, 2)]
    return shown(out)


@program("", "computed from small ones: results, items, keys, behind a break, in a function that is returned")
def computed(compile):
    @compile
    def f(x, n):
        m = n**3000
        kept = {m: 1}
        print(end="")
        m *= n

        def g(y):
            return y + m % 5

        return g(x), g, (m, [-m], {m // 7: m.bit_length()}), kept, m == LARGE, hash(m)

    out = []
    for n in (11, 11, 12):
        value, g, *rest = f(torch.ones(2), n)
        out.append((value, g(torch.zeros(2)), rest))
    return shown(out)


@program("", "keys that are changed in a dict of the caller")
def keys(compile):
    @compile
    def f(x, d, n):
        d[n] = x + 1
        d[n + 1] = d.pop(LARGE, 0)
        return x * len(d), LARGE + 1 in d

    d = {LARGE: 1}
    return shown(([f(torch.ones(2), d, LARGE + k) for k in (3, 3, 0)], d))


@program("", "written out by the program, and given to an operator: eager's errors")
def refused(compile):
    def tried(call):
        try:
            return call()
        except (ValueError, OverflowError, RuntimeError, TypeError, LookupError) as e:
            return type(e).__name__, str(e)

    calls = [
        lambda x, n: str(n),
        lambda x, n: f"{n}",
        lambda x, n: format(n, "d"),
        lambda x, n: repr([n]),
        lambda x, n: float(n),
        lambda x, n: x + n,
        lambda x, n: x * n,
        lambda x, n: x[n],
        lambda x, n: torch.full((2,), n),
    ]
    out = []
    for call in calls:
        compiled = compile(call)
        out += [tried(lambda: compiled(torch.ones(2), n)) for n in (3, LARGE, LARGE)]
    return shown(out)
