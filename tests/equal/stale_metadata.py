"""What a program reads of its functions, classes and modules themselves: names, texts, tables, what is registered or made later."""

from __future__ import annotations

import collections
import functools
import inspect
import sys
import types

import torch

from repro_corpus.program import program


def _after(f, changes):
    found = [f()]
    for change in changes:
        change()
        found += [f(), f()]
    return found


@program("", "names and texts of a function, and of functions of one text")
def names_of_functions(compile):
    def helper(x, k=2):
        "first"
        return x

    def made(name):
        def inner(x):
            return x

        inner.__name__ = name
        return inner

    table = [made("one")]

    @compile
    def f():
        x = torch.ones(2)
        return x * (2 if helper.__name__ == "helper" else 3), helper.__doc__, helper.__qualname__, helper.__module__, table[0].__name__

    return _after(
        f,
        [
            lambda: setattr(helper, "__name__", "other"),
            lambda: setattr(helper, "__doc__", "second"),
            lambda: setattr(helper, "__qualname__", "third"),
            lambda: setattr(helper, "__module__", "fourth"),
            lambda: table.__setitem__(0, made("two")),
        ],
    )


@program("", "names that are in a class's table or in another view of a dict, and their order")
def tables_of_classes(compile):
    class Base:
        a = 1

    names = {"a": 1, "b": 2}
    view = types.MappingProxyType(names)

    @compile
    def f():
        x = torch.ones(2)
        own = [n for n in Base.__dict__ if not n.startswith("__")]
        return x * len(view), "late" in Base.__dict__, own, "c" in view, list(view), view.get("c", 5), vars(Base).get("late")

    @compile
    def g():
        return torch.ones(2) * (3 if "c" in view else 2)

    def both():
        return f(), g()

    return _after(
        both,
        [
            lambda: setattr(Base, "late", 3),
            lambda: names.update(c=4),
            lambda: names.update(a=names.pop("a")),
            lambda: delattr(Base, "late"),
            lambda: names.pop("c"),
        ],
    )


@program("", "subclasses, a registry that classes made later belong to")
def subclasses_made_later(compile):
    class Base:
        k = 1

    class First(Base):
        k = 2

    kept = []

    @compile
    def f():
        found = Base.__subclasses__()
        found.append(Base)
        return torch.ones(2) * sum(c.k for c in found), [c.__name__ for c in found], len(Base.__subclasses__())

    @compile
    def g():
        return torch.ones(2) * len(First.__subclasses__())

    def both():
        return f(), g()

    return _after(both, [lambda: kept.append(type("Second", (Base,), {"k": 5})), lambda: kept.append(type("Third", (First,), {}))])


@program("", "names of modules: `__getattr__` put in later, `dir`, what is loaded, and lists and dicts of the standard library")
def names_of_modules(compile):
    made = types.ModuleType("made")
    made.first = 1

    @compile
    def f():
        return torch.ones(2) * getattr(made, "late", 2), hasattr(made, "late"), [n for n in dir(made) if not n.startswith("__")]

    @compile
    def g():
        return torch.ones(2) * (3 if "made_late" in sys.modules else 2), "-q" in sys.argv, sys.path[-1] == "made"

    def both():
        return f(), g()

    try:
        return _after(
            both,
            [
                lambda: setattr(made, "second", 1),
                lambda: setattr(made, "__getattr__", lambda name: 7),
                lambda: sys.modules.update(made_late=made),
                lambda: sys.argv.append("-q"),
                lambda: sys.path.append("made"),
            ],
        )
    finally:
        sys.modules.pop("made_late", None)
        sys.argv[:] = [a for a in sys.argv if a != "-q"]
        sys.path[:] = [p for p in sys.path if p != "made"]


@program("", "implementations registered with functions that dispatch on a class, after the first call, and again")
def dispatching_functions(compile):
    class Own:
        pass

    @functools.singledispatch
    def scale(x):
        return 1

    class Scaler:
        @functools.singledispatchmethod
        def scale(self, x):
            return 1

    own, scaler = Own(), Scaler()

    @compile
    def f():
        x = torch.ones(2)
        return x * scale(1), x * scale(own), x * scaler.scale("text"), scale.dispatch(int) is scale.dispatch(float)

    return _after(
        f,
        [
            lambda: scale.register(int)(lambda x: 2),
            lambda: scale.register(Own)(lambda x: 3),
            lambda: Scaler.scale.register(str)(lambda self, x: 4) if hasattr(Scaler.scale, "register") else None,
            lambda: vars(Scaler)["scale"].register(str)(lambda self, x: 5),
            lambda: scale.register(int)(lambda x: 6),
        ],
    )


@program("", "a deque of another length at most")
def lengths_of_deques(compile):
    held = [collections.deque([1, 2], maxlen=4)]

    @compile
    def f():
        held[0].append(3)
        return torch.ones(2) * sum(held[0]), held[0].maxlen, len(held[0])

    return _after(f, [lambda n=n: held.__setitem__(0, collections.deque([1, 2], maxlen=n)) for n in (2, None, 1, 4)])


@program("", "`inspect.signature` after other defaults were set")
def defaults_in_signatures(compile):
    def plain(a=1, *, k=2): ...

    class Own:
        def method(self, a=1): ...

    def wrapped(c=8): ...

    own, copied = Own(), functools.wraps(wrapped)(lambda *args: None)

    @compile
    def f():
        read = [inspect.signature(fn).parameters for fn in (plain, own.method, Own.method, copied)]
        first, *_, last = read
        return torch.ones(2) * sum(p["a"].default for p in read[:-1]) + first["k"].default, last["c"].default, list(first)

    def other(b=3, a=4, *, k=5): ...

    return _after(
        f,
        [
            lambda: setattr(plain, "__defaults__", (3,)),
            lambda: setattr(plain, "__kwdefaults__", {"k": 7}),
            lambda: setattr(Own.method, "__defaults__", (9,)),
            lambda: setattr(wrapped, "__defaults__", (4,)),
            lambda: setattr(plain, "__code__", other.__code__),
            lambda: setattr(plain, "__defaults__", (5, 6)),
        ],
    )
