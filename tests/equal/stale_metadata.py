"""What a program reads of its functions and classes themselves: names, texts, tables of classes, subclasses made later."""

from __future__ import annotations

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
