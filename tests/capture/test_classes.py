"""User classes: attributes, methods, descriptors, properties, special methods, dataclasses, enums, `match`."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

POINT = """
class P:
    scale = 2
    def __init__(self, x, k=1):
        self.x = x
        self.k = k
    def times(self, n): return self.x * self.k * n
"""


def _point(name: str, body: str, inputs: list[str], graphs: list[str], compiles: int | None = 1) -> Case:
    return Case(name, body, inputs, graphs, compiles=compiles, prelude=POINT)


ATTRIBUTES = [
    _point("attribute read", "def f(p): return p.x + p.k", ["P(t(3))", "P(t(3))"], ["add"]),
    _point("attribute of another value", "def f(p): return p.x + p.k", ["P(t(3), 1)", "P(t(3), 2)"], ["add"], 2),
    _point("class attribute", "def f(p): return p.x * p.scale * P.scale", ["P(t(3))", "P(t(3))"], ["mul mul"]),
    _point(
        "attribute written",
        """
        def f(p):
            p.x = p.x.sin()
            p.new = 3
        """,
        ["P(t(3))", "P(t(3))"],
        ["sin"],
    ),
    _point(
        "attribute incremented",
        """
        def f(p):
            p.k += 1
            return p.x * p.k
        """,
        ["P(t(3))", "P(t(3))"],
        ["mul"],
    ),
    _point(
        "attribute deleted",
        """
        def f(p):
            del p.k
            return p.x + 1
        """,
        ["P(t(3))", "P(t(3))"],
        ["add"],
    ),
    _point(
        "instance shadows class",
        """
        def f(p):
            p.scale = 5
            return p.x * p.scale + P.scale
        """,
        ["P(t(3))", "P(t(3))"],
        ["mul add"],
    ),
    _point(
        "class attribute written",
        """
        def f(p):
            P.scale = 7
            return p.x * p.scale
        """,
        ["P(t(3))", "P(t(3))"],
        ["mul"],
        None,
    ),
    _point("method", "def f(p): return p.times(3)", ["P(t(3), 2)", "P(t(3), 2)"], ["mul mul"]),
    _point(
        "bound method stored",
        """
        def f(p):
            m = p.times
            return m(2) + m(3)
        """,
        ["P(t(3))", "P(t(3))"],
        ["mul mul mul mul add"],
    ),
    _point("unbound method", "def f(p): return P.times(p, 4)", ["P(t(3))", "P(t(3))"], ["mul mul"]),
    _point("object made inside", "def f(x): return P(x, 3).times(2)", ["t(3)", "t(3)"], ["mul mul"]),
    _point("object made inside and returned", "def f(x): return P(x + 1, 3)", ["t(3)", "t(3)"], ["add"]),
    _point(
        "object made inside, changed, returned",
        """
        def f(x):
            p = P(x)
            p.x = p.x * 2
            p.extra = [p.k]
            return p
        """,
        ["t(3)", "t(3)"],
        ["mul"],
    ),
    _point(
        "object stored in an argument",
        """
        def f(x, out):
            out.append(P(x.sin()))
        """,
        ["t(3), []", "t(3), []"],
        ["sin"],
    ),
    _point(
        "the same object twice",
        """
        def f(p, q):
            p.k = 9
            return q.x * q.k
        """,
        ["*[P(t(3))] * 2", "*[P(t(3))] * 2"],
        ["mul"],
    ),
    _point("hasattr", "def f(p): return p.x + 1 if hasattr(p, 'k') and not hasattr(p, 'zz') else p.x", ["P(t(3))", "P(t(3))"], ["add"]),
    _point("getattr with default", "def f(p): return p.x * getattr(p, 'k') + getattr(p, 'zz', 3)", ["P(t(3))", "P(t(3))"], ["mul add"]),
    _point(
        "setattr and delattr",
        """
        def f(p):
            setattr(p, 'a', 1)
            delattr(p, 'k')
            return p.x + p.a
        """,
        ["P(t(3))", "P(t(3))"],
        ["add"],
    ),
    _point("instance __dict__", "def f(p): return p.x + len(p.__dict__) + p.__dict__['k']", ["P(t(3))", "P(t(3))"], ["add add"]),
    _point("vars", "def f(p): return p.x + len(vars(p))", ["P(t(3))", "P(t(3))"], ["add"]),
    _point(
        "isinstance and type",
        "def f(p): return p.x + 1 if isinstance(p, P) and type(p) is P and not isinstance(p, (int, str)) else p.x",
        ["P(t(3))", "P(t(3))"],
        ["add"],
    ),
    _point(
        "class and name",
        "def f(p): return p.x + len(p.__class__.__name__) + len(type(p).__qualname__)",
        ["P(t(3))", "P(t(3))"],
        ["add add"],
    ),
    _point("identity", "def f(p, q): return p.x + 1 if p is q else p.x - 1", ["*[P(t(3))] * 2", "P(t(3)), P(t(3))"], ["add", "sub"], 2),
    _point(
        "global object",
        """
        G = P(torch.ones(3), 2)
        def f(x):
            G.k += 1
            return x * G.x
        """,
        ["t(3)", "t(3)"],
        ["mul"],
        None,
    ),
    Case(
        "__slots__",
        """
        class S:
            __slots__ = ('a', 'b')
            def __init__(self, a): self.a = a
        def f(s):
            s.b = s.a * 2
            return s.b
        """,
        inputs=["S(t(3))", "S(t(3))"],
        graphs=["mul"],
    ),
    Case(
        "object with a list attribute",
        """
        class H:
            def __init__(self): self.log = []
        def f(x, h):
            h.log.append(x.sin())
            return len(h.log)
        """,
        inputs=["t(3), H()", "t(3), H()"],
        graphs=["sin"],
    ),
]

METHODS = [
    Case(
        "staticmethod",
        """
        class A:
            @staticmethod
            def g(x): return x.sin()
        def f(x): return A.g(x) + A().g(x)
        """,
        graphs=["sin sin add"],
    ),
    Case(
        "classmethod",
        """
        class A:
            k = 3
            @classmethod
            def make(cls, x): return cls.k * x
        class B(A):
            k = 4
        def f(x): return A.make(x) + B.make(x)
        """,
        graphs=["mul mul add"],
    ),
    Case(
        "property",
        """
        class A:
            def __init__(self, x): self._x = x
            @property
            def twice(self): return self._x * 2
        def f(a): return a.twice + 1
        """,
        inputs=["A(t(3))", "A(t(3))"],
        graphs=["mul add"],
    ),
    Case(
        "property setter",
        """
        class A:
            _x = 0
            @property
            def x(self): return self._x
            @x.setter
            def x(self, v): self._x = v + 1
        def f(t, a):
            a.x = t
            return a.x
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["add"],
    ),
    Case(
        "cached_property",
        """
        import functools
        class A:
            def __init__(self, n): self.n = n
            @functools.cached_property
            def size(self): return self.n * 2
        def f(x, a): return x * a.size + a.size
        """,
        inputs=["t(3), A(2)", "t(3), A(2)"],
        graphs=["mul add"],
    ),
    Case(
        "data descriptor",
        """
        class D:
            def __get__(self, obj, owner): return obj.raw * 2
            def __set__(self, obj, v): obj.raw = v
        class A:
            d = D()
        def f(x, a):
            a.d = x
            return a.d
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["mul"],
    ),
    Case(
        "non-data descriptor",
        """
        class D:
            def __get__(self, obj, owner=None): return 5
        class A:
            d = D()
        def f(x, a): return x * a.d
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["mul"],
    ),
    Case(
        "super",
        """
        class A:
            def g(self, x): return x + 1
        class B(A):
            def g(self, x): return super().g(x) * 2
        def f(x): return B().g(x)
        """,
        graphs=["add mul"],
    ),
    Case(
        "super with arguments",
        """
        class A:
            def g(self, x): return x + 1
        class B(A):
            def g(self, x): return super(B, self).g(x) * 2
        def f(x): return B().g(x)
        """,
        graphs=["add mul"],
    ),
    Case(
        "super().__init__",
        """
        class A:
            def __init__(self, x): self.x = x
        class B(A):
            def __init__(self, x):
                super().__init__(x + 1)
                self.k = 2
        def f(x):
            b = B(x)
            return b.x * b.k
        """,
        graphs=["add mul"],
    ),
    Case(
        "diamond inheritance",
        """
        class A:
            def g(self, x): return x + 1
        class B(A):
            def g(self, x): return super().g(x * 2)
        class C(A):
            def g(self, x): return super().g(x * 3)
        class D(B, C): pass
        def f(x): return D().g(x)
        """,
        graphs=["mul mul add"],
    ),
    Case(
        "super of a classmethod",
        """
        class A:
            @classmethod
            def g(cls, x): return x + cls.k
        class B(A):
            k = 2
            @classmethod
            def g(cls, x): return super().g(x) * 2
        def f(x): return B.g(x)
        """,
        graphs=["add mul"],
    ),
    Case(
        "__call__",
        """
        class A:
            def __call__(self, x): return x.sin()
        a = A()
        def f(x): return a(x) + A()(x)
        """,
        graphs=["sin sin add"],
    ),
    Case(
        "__getattr__",
        """
        class A:
            def __getattr__(self, name): return len(name)
        def f(x, a): return x * a.four + a.three
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["mul add"],
    ),
    Case(
        "__getattr__ that raises",
        """
        class A:
            def __getattr__(self, name): raise AttributeError(name)
        def f(x, a): return x + getattr(a, 'q', 2)
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["add"],
    ),
    Case(
        "__getattribute__",
        """
        class A:
            k = 3
            def __getattribute__(self, name):
                v = object.__getattribute__(self, name)
                return v * 2 if name == 'k' else v
        def f(x, a): return x * a.k
        """,
        inputs=["t(3), A()", "t(3), A()"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "__setattr__",
        """
        class A:
            def __setattr__(self, name, v): object.__setattr__(self, name, v * 2)
        def f(x, a):
            a.x = x
            return a.x
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["mul"],
    ),
    Case(
        "__getitem__ and __setitem__",
        """
        class A:
            def __init__(self): self.d = {}
            def __getitem__(self, k): return self.d[k]
            def __setitem__(self, k, v): self.d[k] = v
        def f(x, a):
            a['q'] = x + 1
            return a['q']
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["add"],
    ),
    Case(
        "__delitem__ and __contains__",
        """
        class A:
            def __init__(self): self.d = {'q': 1}
            def __delitem__(self, k): del self.d[k]
            def __contains__(self, k): return k in self.d
        def f(x, a):
            del a['q']
            return x - 1 if 'q' in a else x + 1
        """,
        inputs=["t(3), A()", "t(3), A()"],
        graphs=["add"],
    ),
    Case(
        "__len__ and __bool__",
        """
        class A:
            def __len__(self): return 0
        class B(A):
            def __bool__(self): return True
        def f(x): return x + 1 if not A() and B() else x
        """,
        graphs=["add"],
    ),
    Case(
        "arithmetic methods",
        """
        class V:
            def __init__(self, x): self.x = x
            def __add__(self, o): return V(self.x + o.x)
            def __mul__(self, k): return V(self.x * k)
            def __rmul__(self, k): return self * k
            def __neg__(self): return V(-self.x)
        def f(x): return (-(V(x) + 3 * V(x))).x
        """,
        graphs=["mul add neg"],
    ),
    Case(
        "in-place method",
        """
        class V:
            def __init__(self, x): self.x = x
            def __iadd__(self, o):
                self.x = self.x + o
                return self
        def f(v):
            v += 2
            return v
        """,
        inputs=["V(t(3))", "V(t(3))"],
        graphs=["add"],
    ),
    Case(
        "comparison methods",
        """
        class V:
            def __init__(self, n): self.n = n
            def __eq__(self, o): return self.n == o.n
            def __lt__(self, o): return self.n < o.n
            def __hash__(self): return hash(self.n)
        def f(x): return x + 1 if V(1) == V(1) and V(1) < V(2) and V(1) != V(3) else x
        """,
        graphs=["add"],
    ),
    Case(
        "user key in a dict",
        """
        class K:
            def __init__(self, n): self.n = n
            def __eq__(self, o): return self.n == o.n
            def __hash__(self): return self.n
        def f(x): return x * {K(1): 2}[K(1)]
        """,
        graphs=["mul"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "default hash key",
        """
        class K: pass
        k = K()
        D = {k: 4}
        def f(x): return x * D[k]
        """,
        graphs=["mul"],
    ),
    Case(
        "__enter__ and __exit__",
        """
        class M:
            def __init__(self): self.log = []
            def __enter__(self):
                self.log.append('in')
                return 2
            def __exit__(self, *e): self.log.append('out')
        def f(x, m):
            with m as k:
                x = x * k
            return x
        """,
        inputs=["t(3), M()", "t(3), M()"],
        graphs=["mul"],
    ),
    Case(
        "__iter__",
        """
        class A:
            def __iter__(self): return iter([1, 2])
        def f(x): return [x + n for n in A()]
        """,
        graphs=["add add"],
    ),
    Case(
        "__repr__ and __str__",
        """
        class A:
            def __repr__(self): return 'AAA'
        def f(x): return x * len(repr(A())) + len(f'{A()}!')
        """,
        graphs=["mul add"],
    ),
    Case(
        "__new__",
        """
        class A:
            def __new__(cls, x):
                self = super().__new__(cls)
                self.x = x + 1
                return self
        def f(x): return A(x).x * 2
        """,
        graphs=["add mul"],
    ),
    Case(
        "__init_subclass__ and class body",
        """
        class A:
            names = []
            def __init_subclass__(cls): A.names.append(cls.__name__)
        class B(A): pass
        def f(x): return x * len(A.names)
        """,
        graphs=["mul"],
    ),
    Case(
        "__class_getitem__ and generics",
        """
        from typing import Generic, TypeVar
        T = TypeVar('T')
        class Box(Generic[T]):
            def __init__(self, x): self.x = x
        def f(x): return Box(x + 1).x
        """,
        graphs=["add"],
    ),
    Case(
        "metaclass call",
        """
        class Meta(type):
            def __call__(cls, x): return super().__call__(x * 2)
        class A(metaclass=Meta):
            def __init__(self, x): self.x = x
        def f(x): return A(x).x
        """,
        graphs=["mul"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "class defined inside",
        """
        def f(x):
            class Local:
                k = 3
            return x * Local.k
        """,
        graphs=["mul"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "issubclass",
        """
        class A: pass
        class B(A): pass
        def f(x): return x + 1 if issubclass(B, A) and not issubclass(A, B) else x
        """,
        graphs=["add"],
    ),
    Case(
        "abstract base class",
        """
        import abc
        class A(abc.ABC):
            @abc.abstractmethod
            def g(self, x): ...
        class B(A):
            def g(self, x): return x.sin()
        def f(x): return B().g(x) if isinstance(B(), A) else x
        """,
        graphs=["sin"],
    ),
    Case(
        "mixin attribute order",
        """
        class A:
            k = 1
        class B:
            k = 2
        class C(A, B): pass
        def f(x): return x * C.k + len(C.__mro__)
        """,
        graphs=["mul add"],
    ),
    Case(
        "object id is stable within a call",
        """
        class A: pass
        def f(x, a, b): return x + 1 if id(a) == id(a) and id(a) != id(b) else x
        """,
        inputs=["t(3), A(), A()", "t(3), A(), A()"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "singledispatch",
        """
        import functools
        @functools.singledispatch
        def g(v): return 1
        @g.register
        def _(v: int): return 2
        def f(x): return x * g(3) + g('s')
        """,
        graphs=["mul add"],
        fullgraph=False,
        compiles=None,
    ),
]


@pytest.mark.parametrize("case", ATTRIBUTES + METHODS, ids=lambda case: case.name)
def test_classes(case: Case) -> None:
    case.check()
