"""Keys of dicts, keywords, loaded modules and registered classes and slots that change between calls: compiled code follows."""

from __future__ import annotations

import abc
import collections.abc
import functools
import numbers
import sys
import types

import torch
from torch.func import functional_call, grad, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from repro_corpus.program import program


def _dicts():
    a, b, c = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([5.0, 6.0])
    return [{"a": a, "b": b}, {"b": b, "a": a}, {"a": a, "b": b, "c": c}, {"a": a}, {"b": b}, {"a": b, "b": a}]


def _total(d):
    return sum((i + 1) * v for i, v in enumerate(d.values()))


def _called(compile, *functions):
    """Each function with dicts of other keys and another order, twice."""
    found = []
    for fn in functions:
        f = compile(fn)
        found += [f(d) for d in (*_dicts(), *_dicts())]
    return found


@program("", "transforms of functions of dicts")
def transforms_of_dicts(compile):
    return _called(
        compile,
        lambda d: vmap(_total)(d),
        lambda d: grad(lambda q: _total(q).pow(2).sum())(d),
        lambda d: vjp(lambda q: _total(q).pow(2), d)[1](torch.ones(2)),
        lambda d: jvp(lambda q: _total(q).pow(2), (d,), ({k: torch.ones(2) for k in d},)),
    )


@program("", "regions that take dicts, and the dict as what is differentiated of an argument of several")
def regions_of_dicts(compile):
    return _called(
        compile,
        lambda d: checkpoint(_total, d, use_reentrant=False),
        lambda d: torch.cond(torch.tensor(True), lambda q: _total(q), lambda q: _total(q) * 2, (d,)),
        lambda d: grad(lambda x, q: (x * _total(q)).sum(), argnums=(0, 1))(torch.ones(2), d),
    )


@program("", "parameters of functional_call")
def parameters_by_name(compile):
    m = torch.nn.Linear(2, 2)
    torch.nn.init.ones_(m.weight)
    torch.nn.init.ones_(m.bias)
    f = compile(lambda d, x: functional_call(m, d, (x,)))
    x, w, b = torch.tensor([1.0, 2.0]), torch.eye(2), torch.tensor([9.0, 9.0])
    given = ({"weight": w}, {"bias": b}, {"weight": w, "bias": b}, {}, {"bias": b, "weight": w * 2}, {"weight": w})
    return [f(d, x) for d in given]


@program("", "a partial function's keywords and positional arguments")
def partial_functions(compile):
    found = []
    for _ in range(3):
        p = functools.partial(lambda x, *a, k=1, **more: x * k + sum(more.values()) + sum(a), k=2)
        f, x = compile(lambda x: p(x)), torch.tensor([1.0, 2.0])
        found.append(f(x))
        p.keywords["k"] = 5
        found += [f(x), f(x)]
        p.__setstate__((p.func, (), {"k": 1, "m": 9}, {}))
        found += [f(x), f(x)]
        p.__setstate__((p.func, (7,), {"k": 1, "m": 9}, {}))
        found.append(f(x))
        p.keywords["q"] = 100
        found.append(f(x))
        del p.keywords["m"]
        found.append(f(x))
    return found


def _module(name, **names):
    sys.modules[name] = m = types.ModuleType(name)
    vars(m).update(names)
    return m


@program("", "modules imported in a function are those that are loaded when it runs")
def replaced_modules(compile):
    @compile
    def f(x):
        import replaced_whole

        return x * replaced_whole.factor

    @compile
    def g(x):
        from replaced_package import factor, part

        return x * factor + part.term

    @compile
    def h(x):
        import replaced_package.part as part

        return x * part.term

    x, found = torch.tensor([1.0, 2.0]), []
    try:
        for k in (2, 3, 4):
            _module("replaced_whole", factor=k)
            package = _module("replaced_package", factor=k, __path__=[])
            package.part = _module("replaced_package.part", term=k * 10)
            found += [f(x), f(x), g(x), h(x)]
        package.part = _module("replaced_package.part", term=70)
        found += [g(x), h(x)]
        del sys.modules["replaced_whole"]
        try:
            found.append(f(x))
        except ImportError as e:
            found.append(str(e))
    finally:
        for name in ("replaced_whole", "replaced_package", "replaced_package.part"):
            sys.modules.pop(name, None)
    return found


@program("", "classes that are registered with abstract ones between calls")
def registered_classes(compile):
    class Abstract(abc.ABC):
        pass

    class Below(Abstract):
        pass

    class Rows:
        pass

    class Count:
        pass

    class Late:
        pass

    rows, count = Rows(), Count()

    @compile
    def f(x):
        if isinstance(rows, collections.abc.Sequence | Abstract):
            x = x * 2
        if issubclass(Count, (int, numbers.Number)):
            x = x + 5
        return x - int(isinstance(count, Abstract)), issubclass(Late, Abstract)

    x = torch.tensor([1.0, 2.0])
    found = [f(x), f(x)]
    for abstract, cls in ((collections.abc.Sequence, Rows), (numbers.Number, Count), (Below, Count), (Abstract, Late)):
        abstract.register(cls)
        found += [f(x), f(x)]
    return found


@program("", "slots that are filled and emptied between calls")
def slots_of_objects(compile):
    class Point:
        __slots__ = ("kept", "late")

    class Below(Point):
        __slots__ = ("own",)

    point, other = Point(), Below()
    point.kept = 1

    @compile
    def f(x):
        try:
            x = x * other.late
        except AttributeError:
            x = x - 1
        return x * getattr(point, "late", 2) + point.kept, hasattr(point, "late"), hasattr(other, "own")

    x = torch.tensor([1.0, 2.0])
    found = [f(x)]
    for owner, name, value in ((point, "late", 5), (other, "own", 1), (other, "late", 7), (point, "kept", 3)):
        setattr(owner, name, value)
        found += [f(x), f(x)]
    for owner, name in ((point, "late"), (other, "own"), (other, "late")):
        delattr(owner, name)
        found += [f(x), f(x)]
    return found
