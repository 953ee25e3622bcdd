"""State that a function changes one way and reads another way, in one frame."""

from __future__ import annotations

import functools
import inspect
import sys
import types

import torch

from repro_corpus.program import program

NAMES = globals()


@program("", "names of a module, through its dict, the module and `global`, set, deleted and read each way")
def names_of_a_module(compile):
    @compile
    def f(x):
        global FIRST, SECOND
        FIRST += 1
        seen = [NAMES["FIRST"]]
        NAMES["FIRST"] = FIRST + 10
        seen.append(FIRST)
        sys.modules[__name__].FIRST = 99
        setattr(sys.modules[__name__], "SECOND", 7)
        seen += [FIRST, NAMES["FIRST"], SECOND, NAMES.get("SECOND")]
        del NAMES["SECOND"]
        try:
            seen.append(SECOND)
        except NameError as e:
            seen.append(str(e))
        SECOND = 3
        seen += ["SECOND" in NAMES, NAMES.pop("SECOND"), hasattr(sys.modules[__name__], "SECOND")]
        NAMES.update(SECOND=5)
        return x * SECOND, seen

    NAMES.update(FIRST=1, SECOND=1)
    found = f(torch.ones(2)), f(torch.ones(2)), FIRST, SECOND
    del NAMES["FIRST"], NAMES["SECOND"]
    return found


@program("", "the dict that globals() gives, between reads of the same names")
def globals_called(compile):
    @compile
    def f(x):
        global COUNT
        COUNT += 1
        globals()["DOUBLE"] = COUNT * 2
        return x * COUNT + DOUBLE, "DOUBLE" in globals()  # noqa: F821  # defined by the line above

    NAMES["COUNT"] = 1
    found = f(torch.ones(2)), f(torch.ones(2))
    NAMES["COUNT"] = 50
    found += (f(torch.ones(2)),)
    del NAMES["COUNT"], NAMES["DOUBLE"]
    return found


@program("", "a name of a module that is deleted where there is none")
def missing_names(compile):
    module = types.ModuleType("m")

    @compile
    def f(x):
        module.k = 1
        del module.k
        try:
            del module.k
        except AttributeError as e:
            return x + 1, str(e)
        return x

    return f(torch.ones(2)), f(torch.ones(2)), vars(module).get("k")


@program("", "class attributes, through `__dict__`, vars(), super(), a metaclass and the class below")
def attributes_of_a_class(compile):
    @compile
    def f(x):
        A.k = x.shape[0]
        own = A.__dict__
        seen = [own["k"], vars(A)["k"], inspect.getattr_static(A, "k"), A().k, super(B, B()).k, B.k]
        A.k = A.k + 1
        seen += [own["k"], "late" in own, super(B, B()).k]
        A.late = 4
        seen += [own["late"], "late" in dir(A), hasattr(B, "late"), super(B, B()).late]
        A.go = lambda self: "go"
        seen += [B().go(), super(B, B()).go()]
        Meta.of_all = 6
        return x * A.k, seen, A.of_all, B.of_all, hasattr(A(), "of_all")

    class Meta(type):
        of_all = 5

    class A(metaclass=Meta):
        k = 1

    class B(A):
        pass

    return f(torch.ones(2)), f(torch.ones(3)), A.k


@program("", "descriptors made inside, of functions made inside, put into a class")
def descriptors_made_inside(compile):
    class A:
        __slots__ = ("slot",)

    class B(A):
        pass

    class Nine:
        def __get__(self, obj, cls=None):
            return 9

    @compile
    def f(x):
        A.p = property(lambda self: x.shape[0], doc="d")
        A.s = staticmethod(lambda: 6)
        A.c = classmethod(lambda cls: cls.__name__)
        A.n = Nine()
        a = A()
        a.slot = 3
        before = a.slot
        A.slot = 8
        partial = property(functools.partial(int, "7"))
        return x + 1, a.p, A.p.__doc__, a.s(), A.s(), B.c(), B().c(), a.n, A.n, before, a.slot, partial.fget(), partial.fset

    def again():
        class Slotted:
            __slots__ = ("slot",)

        A.slot = Slotted.__dict__["slot"]

    first = f(torch.ones(2))
    del A.slot
    return first, again()


@program("", "a dict behind a mappingproxy, keywords of a partial, and a cell that two functions share")
def views_of_state(compile):
    held = {"a": 1}
    shown = types.MappingProxyType(held)
    partial = functools.partial(lambda x, k=1: x * k, k=2)

    def pair():
        value = 1

        def read():
            return value

        def write(new):
            nonlocal value
            value = new

        return read, write

    read, write = pair()

    @compile
    def f(x):
        held["b"] = x.shape[0]
        seen = [shown["b"], len(shown), list(shown), "b" in shown, dict(shown), types.MappingProxyType(held)["a"]]
        held["a"] += 1
        partial.keywords["k"] = held["a"]
        write(held["a"] * 10)
        seen += [shown["a"], read(), read.__closure__[0].cell_contents, partial.keywords is partial.keywords]
        return partial(x), seen, "late" in types.MappingProxyType(held)

    found = f(torch.ones(2)), f(torch.ones(2))
    held["late"] = 0
    return found, f(torch.ones(3)), held, partial.keywords


@program("", "what a bytearray and an array hold is read at each call")
def memory_of_python(compile):
    import array

    data, numbers = bytearray(b"abc"), array.array("d", [1.0, 2.0])

    @compile
    def f(x):
        data.extend(b"z")
        numbers.append(3.0)
        return x + len(data), bytes(data), b"%b" % data, int.from_bytes(data[:2], "little"), bytes(numbers)[:1], str(data, "ascii")

    return [f(torch.ones(2)) for _ in range(3)]


@program("", "abstract methods of classes that have none, and an implementation registered where it is used")
def registered_inside(compile):
    @functools.singledispatch
    def kind(x):
        return "any"

    @compile
    def f(x, n):
        before = kind(n)
        kind.register(type(n))(lambda x: f"{type(x).__name__}")
        return x + 1, before, kind(n), kind.dispatch(type(n)) is kind.dispatch(object), hasattr(int, "__abstractmethods__")

    return f(torch.ones(2), 1), f(torch.ones(2), 1), f(torch.ones(2), "a")
