"""More classes for the programs of test_python_objects.py: generics, metaclasses, odd special methods, context managers."""

# ruff: noqa: ICN001, F401, F403, F405, LOG, PLW, RUF, SLOT, UP, PYI, PT  # everything here is for programs given as text

from __future__ import annotations

import collections
import contextlib
import contextvars
import datetime
import decimal
import fractions
import json
import pathlib
import reprlib
import threading
import typing

from tests.symbolic.objects import *

T = typing.TypeVar("T")


class Gen(typing.Generic[T]):
    def __init__(self, v: T):
        self.v = v

    def get(self) -> T:
        return self.v


class LT(threading.local):
    def __init__(self):
        self.v = 1


lt = LT()
tl = threading.local()
tl.z = 5
CV = contextvars.ContextVar("CV", default=3)


class Node:
    def __init__(self, v, kids=()):
        self.v = v
        self.kids = list(kids)

    def walk(self):
        yield self
        for k in self.kids:
            yield from k.walk()

    def __iter__(self):
        return iter(self.kids)


class Stack(list):
    def push(self, v):
        self.append(v)
        return self

    @property
    def top(self):
        return self[-1]


class CaseDict(dict):
    def __setitem__(self, k, v):
        super().__setitem__(k.upper(), v)

    def __contains__(self, k):
        return super().__contains__(k.upper())


class FrozenSet2(frozenset):
    pass


class Meta2(type):
    def __getattr__(cls, n):
        return n + "!"

    def __getitem__(cls, k):
        return (cls.__name__, k)

    def __iter__(cls):
        return iter([1, 2])

    def __contains__(cls, k):
        return k == 1

    @property
    def mp(cls):
        return "mp"


class WM(metaclass=Meta2):
    pass


class InitSub:
    reg = []

    def __init_subclass__(cls, **kw):
        cls.reg.append(cls.__name__)


class IS1(InitSub):
    pass


class Singleton:
    _i = None

    def __new__(cls, *a):
        o = super().__new__(cls)
        o.args = a
        return o


class Chain:
    def __init__(self):
        self.p = []

    def __getattr__(self, n):
        if n.startswith("__"):
            raise AttributeError(n)
        self.p.append(n)
        return self


class NotBool:
    def __bool__(self):
        raise ValueError("nb")


class Cmp:
    def __init__(self, v):
        self.v = v

    def __eq__(self, o):
        return Cmp(self.v == o.v)

    def __bool__(self):
        return bool(self.v)

    __hash__ = None


class LenOnly:
    def __len__(self):
        return 0


class StrOnly:
    def __str__(self):
        return "so"


class FmtErr:
    def __format__(self, s):
        return 3


class OpList(collections.UserList):
    pass


class ReprRec:
    def __init__(self):
        self.me = self

    @reprlib.recursive_repr()
    def __repr__(self):
        return f"R({self.me!r})"


class GetSetState:
    def __init__(self):
        self.a = [1]

    def __copy__(self):
        o = GetSetState()
        o.a = "copied"
        return o

    def __deepcopy__(self, memo):
        o = GetSetState()
        o.a = "deep"
        return o


class ExitRaise:
    def __enter__(self):
        return 1

    def __exit__(self, t, v, tb):
        raise KeyError("exit") from v


class Suppress:
    def __init__(self, *t):
        self.t = t

    def __enter__(self):
        return self

    def __exit__(self, t, v, tb):
        return t is not None and issubclass(t, self.t)


@contextlib.contextmanager
def swallow():
    try:
        yield
    except ValueError:
        pass


@contextlib.contextmanager
def reraise():
    try:
        yield 1
    except ValueError as e:
        raise KeyError("from cm") from e


class ExcWithArgs(Exception):
    def __init__(self, a, *, b=2):
        self.a = a
        self.b = b

    def __str__(self):
        return f"{self.a}/{self.b}"


class Slotted:
    __slots__ = ("__dict__", "x")


class SlotSub(Slots):
    __slots__ = ("c",)

    def __init__(self):
        super().__init__(1)
        self.c = 3


class LazyAttr:
    def __getattr__(self, n):
        v = n * 2
        setattr(self, n, v)
        return v


def varkw(a, *b, c, **d2):
    return a, b, c, d2


def annotated(a: int, b: str = "x") -> float:
    return a
