"""Special methods that give what Python does not take, numbers of classes of the program's own, and weak references to methods."""

from __future__ import annotations

import inspect
import itertools
import logging
import math
import operator
import sys
import traceback
import weakref

import torch

from repro_corpus.program import program


class Int(int):
    """Sequences take the number that it is; only other kinds of objects are asked for their index."""

    def __index__(self):
        return 0


class Gives:
    """Every special method gives `v`."""

    def __init__(self, v):
        self.v = v

    def __bool__(self):
        return self.v

    def __len__(self):
        return self.v

    def __index__(self):
        return self.v

    def __int__(self):
        return self.v

    def __float__(self):
        return self.v

    def __complex__(self):
        return self.v

    def __bytes__(self):
        return self.v

    def __iter__(self):
        return self.v

    def __str__(self):
        return self.v

    def __hash__(self):
        return self.v


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def outcome(compile, body, *args):
    try:
        return compile(body)(torch.ones(2), *args)
    except (TypeError, ValueError, LookupError) as e:
        return type(e).__name__, str(e)


@program("", "truth and length of objects that give something else")
def truths_and_lengths(compile):
    bodies = (
        lambda x, v: x * 2 if Gives(v) else x,
        lambda x, v: not Gives(v),
        lambda x, v: [i for i in range(2) if Gives(v)],
        lambda x, v: len(Gives(v)),
        lambda x, v: x * 2 if Sized(v) else x,
        lambda x, v: any([Sized(v), Gives(v)]),
        lambda x, v: x + len(Sized(v)),
    )
    return [outcome(compile, body, v) for body in bodies for v in (True, 3, 0, -1, 2.5, "a", None)]


@program("", "conversions and protocols whose method gives something else")
def conversions(compile):
    bodies = (
        lambda x, v: int(Gives(v)),
        lambda x, v: float(Gives(v)),
        lambda x, v: complex(Gives(v)),
        lambda x, v: bytes(Gives(v)),
        lambda x, v: str(Gives(v)),
        lambda x, v: f"{Gives(v)}",
        lambda x, v: list(Gives(v)),
        lambda x, v: iter(Gives(v)) is None,
        lambda x, v: {Gives(v): 1}[3],
        lambda x, v: math.floor(Gives(v)),
        lambda x, v: [1, 2, 3, 4][Gives(v)],
        lambda x, v: range(Gives(v)),
        lambda x, v: operator.index(Gives(v)),
    )
    return [outcome(compile, body, v) for body in bodies for v in (3, 2.5, "a", None)]


@program("", "sequences take the number that an instance of int's subclass is, and do not ask its __index__")
def own_integers(compile):
    bodies = (
        lambda x, i: [5, 6, 7][i],
        lambda x, i: (5, 6, 7)[i:],
        lambda x, i: "abc"[i],
        lambda x, i: [1] * i + [2, 3, 4][:i],
        lambda x, i: list(range(i)),
        lambda x, i: [1, 2, 3].pop(i),
        lambda x, i: operator.index(i) + x,
        lambda x, i: round(2.345, i),
        lambda x, i: x.repeat(i),
    )
    return [outcome(compile, body, Int(i)) for body in bodies for i in (2, 1)]


@program("", "a weak reference to a method gives the method, through subclasses of references too")
def weak_methods(compile):
    class Box:
        def __init__(self, t):
            self.t = t

        def twice(self):
            return self.t * 2

    class Named(weakref.ref):
        def __call__(self):
            return super().__call__(), "named"

    @compile
    def f(method, named, x):
        made = weakref.WeakMethod(x.twice)
        box, name = named()
        return method()() + made()(), box.t + 1, name

    a, b = Box(torch.ones(2)), Box(torch.zeros(2))
    out = [f(weakref.WeakMethod(a.twice), Named(b), a) for _ in range(2)]
    gone = weakref.WeakMethod(Box(torch.ones(1)).twice)
    return out, compile(lambda m: m() is None)(gone)


@program("", "frames behind a break have the name of the function: for callees, tracebacks and logs")
def names_of_frames(compile):
    records = []
    logger = logging.getLogger("tests.equal.special_methods")
    logger.setLevel("INFO")
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: records.append((record.funcName, record.getMessage()))

    def caller():
        return sys._getframe(1).f_code.co_name, inspect.currentframe().f_back.f_code.co_name

    @compile
    def working(x):
        y = x + 1
        print(float(y.sum()))
        names = caller()
        logger.info("computed %d", y.shape[0])
        try:
            raise ValueError("seen")
        except ValueError as e:
            where = [f.name for f in traceback.extract_tb(e.__traceback__)]
        print("again")
        return y * 2, names, caller(), where

    @compile
    def failing(x):
        print("before")
        x.view(7)

    out = [working(torch.ones(3)) for _ in range(2)]
    try:
        failing(torch.ones(2))
    except RuntimeError as e:
        found = {f.name for f in traceback.extract_tb(e.__traceback__)}
    logger.removeHandler(handler)
    return out, records, "failing" in found, [n for n in found if "resume" in n]


@program("", "metaclasses and classes that are subscripted and iterated, with effects")
def of_classes(compile):
    log = []

    class Meta(type):
        def __call__(cls, *args):
            made = super().__call__(*args)
            log.append(cls.__name__)
            return made

        def __getitem__(cls, n):
            log.append(n)
            return cls(n)

        def __iter__(cls):
            log.append("iter")
            return iter([1, 2])

    class Scale(metaclass=Meta):
        def __init__(self, n):
            self.n = n

        def __matmul__(self, x):
            return x * self.n

    class Named:
        def __class_getitem__(cls, key):
            log.append(key)
            return key + 1

    @compile
    def f(x):
        return Scale[3] @ x, Named[2] * x, [n * x for n in Scale], max(Scale)

    return [f(torch.ones(2)) for _ in range(3)], [entry for entry in log if entry != "len"]


@program("", "a list or tuple of what has a length of its own")
def lengths_are_asked(compile):
    log = []

    class Sized:
        def __init__(self, n) -> None:
            self.n = n

        def __iter__(self):
            log.append("iter")
            return iter(range(self.n))

        def __len__(self):
            log.append("len")
            return self.n

    class Hinted:
        def __iter__(self):
            return self

        def __next__(self):
            log.append("next")
            raise StopIteration

        def __length_hint__(self):
            log.append("hint")
            return NotImplemented

    class Refuses(Hinted):
        def __len__(self):
            log.append("refuses")
            raise TypeError("no")

    class Own(list):
        def __len__(self):
            log.append("own")
            return 7

    def three(*args):
        return len(args)

    class Text:
        def __iter__(self):
            return iter("ab")

        def __len__(self):
            log.append("text")
            return 2

    class Fails:
        def __iter__(self):
            log.append("made")
            return iter(())

        def __len__(self):
            raise KeyError("length")

    @compile
    def f(x):
        s = Sized(2)
        kept = [9]
        out = [list(s), tuple(s), [*s], (*s, 1), {*s}, sorted(s), three(*s), three(1, *s), set(s), sum(s), max(s)]
        log.append("more")
        kept.extend(s)
        kept += s
        kept[1:2] = s
        a, *b = s
        c, d = s
        out += [a, b, c, d, kept, list(map(str, s)), list(zip(s, s)), list(enumerate(s)), dict.fromkeys(s), frozenset(s)]
        log.append("hinted")
        out += [list(Hinted()), list(Refuses()), tuple(Refuses()), [*Own((1, 2))], list(Own((3,))), sorted(Own((2, 1)))]
        log.append("itertools")
        out += [
            list(itertools.product(s, s)),
            list(itertools.permutations(s)),
            list(itertools.combinations(s, 1)),
            list(itertools.starmap(three, [s])),
        ]
        out += ["".join(Text()), list(itertools.chain(s, s)), list(reversed([1, 2])), list(iter(s))]
        try:
            list(Fails())
        except KeyError as e:
            out.append(e.args)
        return x + 1, out, list(log)

    first = f(torch.ones(2))
    log.clear()
    return first, f(torch.ones(2)), log
