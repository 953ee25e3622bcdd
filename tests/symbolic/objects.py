"""Classes, functions and objects that the programs of test_python_objects.py use."""

# ruff: noqa: F401, F403, F405  # everything here is for programs given as text

from __future__ import annotations

import abc
import bisect
import collections.abc
import contextlib
import heapq
import inspect
import logging
import numbers
import os
import string
import sys
import warnings
import weakref

import torch

from tests.symbolic.test_python_values import *

nn = torch.nn


@contextlib.contextmanager
def cm(log):
    log.append("in")
    try:
        yield len(log)
    except KeyError:
        log.append("caught")
    finally:
        log.append("out")


class Abstract(abc.ABC):
    @abc.abstractmethod
    def f(self): ...


class Concrete(Abstract):
    def f(self):
        return 1


class Meta(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        o.made = True
        return o

    def __instancecheck__(cls, o):
        return o == 3 or super().__instancecheck__(o)

    def __len__(cls):
        return 42


class WithMeta(metaclass=Meta):
    def __init__(self, n):
        self.n = n


class Desc:
    def __set_name__(self, o, n):
        self.n = "_" + n

    def __get__(self, i, o=None):
        return self if i is None else getattr(i, self.n, "unset")

    def __set__(self, i, v):
        setattr(i, self.n, v * 2)


class HasDesc:
    d = Desc()

    @functools.cached_property
    def cp(self):
        return [1, 2]

    def __init_subclass__(cls, **k):
        pass


class Getattribute:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, n):
        return object.__getattribute__(self, n) if n != "zz" else "ZZ"


class Proto(typing.Protocol):
    def f(self): ...


Proto2 = typing.runtime_checkable(Proto)


class TD(typing.TypedDict):
    a: int


class NT(typing.NamedTuple):
    a: int
    b: int = 4

    def s(self):
        return self.a + self.b


class KwPair(Pair):
    pass


class TupSub(tuple):  # noqa: SLOT001
    def __new__(cls, *a):
        return super().__new__(cls, a)


class ODSub(OrderedDict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.extra = 1


class SetSub(set):
    pass


@functools.total_ordering
class TO:
    def __init__(self, n):
        self.n = n

    def __eq__(self, o):
        return self.n == o.n

    def __lt__(self, o):
        return self.n < o.n


def deco(fn):
    @functools.wraps(fn)
    def w(*a, **k):
        return ("w", fn(*a, **k))

    return w


@deco
def decorated(a, b=2):
    "doc"
    return a + b


log = logging.getLogger("quiet")
log.setLevel(logging.ERROR)
WR = weakref.ref(torch)


class Ctx(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *e):
        return False


class Prop:
    def __init__(self):
        self._v = 1

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, n):
        self._v = n * 10

    @v.deleter
    def v(self):
        self._v = "deleted"


class Iter:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Seq(collections.abc.Sequence):
    def __init__(self, *v):
        self.v = v

    def __getitem__(self, i):
        return self.v[i]

    def __len__(self):
        return len(self.v)


class MM(collections.abc.MutableMapping):
    def __init__(self):
        self.d = {}

    def __getitem__(self, k):
        return self.d[k]

    def __setitem__(self, k, v):
        self.d[k] = v

    def __delitem__(self, k):
        del self.d[k]

    def __iter__(self):
        return iter(self.d)

    def __len__(self):
        return len(self.d)


class UD(collections.UserDict):
    pass


itemg = operator.itemgetter(0, 1)
attrg = operator.attrgetter("shape")
PART = functools.partial(pow, 2)
GL = [1, 2]


class Cfg:
    def __init__(self, **kw):
        self.__dict__.update(kw)

    def __getattr__(self, n):
        if n == "missing":
            return "dflt"
        raise AttributeError(f"no {n}")


class Reg(dict):
    def __getattr__(self, k):
        try:
            return self[k]
        except KeyError:
            raise AttributeError(k)

    def __setattr__(self, k, v):
        self[k] = v


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.dct = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(3, 3)})
        self.seq = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.pl = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.pd = nn.ParameterDict({"p": nn.Parameter(torch.ones(3))})
        self.register_buffer("buf", torch.zeros(3))
        self.cfg = Cfg(n=2, act="relu")
        self.xs = [1, 2]
        self.count = 0


torch.manual_seed(0)
mod = M()


class PropClass:
    @functools.lru_cache
    def cachedm(self, n):
        return n + 1

    @functools.singledispatchmethod
    def sd(self, v):
        return "o"

    @sd.register
    def _(self, v: int):
        return "i"

    pm = functools.partialmethod(lambda self, a, b: (a, b), 5)


class LazyD(dict):
    def __getitem__(self, k):
        return ("lazy", super().__getitem__(k))

    def get(self, k, d=None):
        return ("get", super().get(k, d))


class CallLog:
    def __init__(self):
        self.calls = []

    def __call__(self, *a, **k):
        self.calls.append((a, k))
        return len(self.calls)


class Op:
    def __init__(self, v):
        self.v = v

    def __sub__(self, o):
        return Op(self.v - getattr(o, "v", o))

    def __rsub__(self, o):
        return Op(o - self.v)

    def __isub__(self, o):
        self.v -= o
        return self

    def __neg__(self):
        return Op(-self.v)

    def __abs__(self):
        return abs(self.v)

    def __invert__(self):
        return ~self.v

    def __round__(self, n=0):
        return ("r", n)

    def __floor__(self):
        return "fl"

    def __int__(self):
        return 7

    def __matmul__(self, o):
        return "mm"

    def __getitem__(self, k):
        return k

    def __setitem__(self, k, v):
        self.v = (k, v)

    def __delitem__(self, k):
        self.v = ("del", k)

    def __lt__(self, o):
        return NotImplemented

    def __divmod__(self, o):
        return ("dm", o)

    def __pow__(self, o, m=None):
        return ("pow", o, m)

    def __reversed__(self):
        return iter("rev")

    def __length_hint__(self):
        return 3

    def __eq__(self, o):
        return NotImplemented

    __hash__ = None


class Sub1(int):
    pass


GEN = [i for i in range(3)]
CELL = (lambda v: lambda: v)(5)


class A1:
    def m(self):
        return ["A"]


class B1(A1):
    def m(self):
        return ["B"] + super().m()


class C1(A1):
    def m(self):
        return ["C"] + super().m()


class D1(B1, C1):
    def m(self):
        return ["D"] + super().m()


def kwonly(*, a, b=2):
    return a, b


def defaults(a, b=[], c={}):
    b.append(a)
    return b


class Counting:
    n = 0

    def __init__(self):
        type(self).n_made = 1
        self.idx = 0

    def __len__(self):
        return 3

    def __getitem__(self, i):
        if i >= 3:
            raise IndexError(i)
        return i * 10


@dataclasses.dataclass
class DC:
    x: int
    y: list = dataclasses.field(default_factory=lambda: [1])
    z: int = dataclasses.field(init=False, default=9)
    w: dataclasses.InitVar[int] = 5

    def __post_init__(self, w):
        self.z = w * 2


@dataclasses.dataclass(slots=True)
class SDC:
    a: int = 1


@dataclasses.dataclass(kw_only=True, unsafe_hash=True)
class KDC:
    a: int
    b: str = "q"


class Auto(enum.Enum):
    @staticmethod
    def _generate_next_value_(name, *a):
        return name.lower()

    ONE = enum.auto()
    TWO = enum.auto()

    def m(self):
        return (self, self.value)

    @classmethod
    def first(cls):
        return cls.ONE


class ES(enum.StrEnum):
    K = "k"
