"""Classes of the standard library and `match`: dataclasses, enums, namespaces, context managers."""

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

DATACLASS = """
from dataclasses import dataclass, field, replace, fields, asdict
@dataclass
class D:
    x: object
    k: int = 2
    log: list = field(default_factory=list)
    def scaled(self): return self.x * self.k
"""

LIBRARY = [
    Case(
        "dataclass made inside",
        "def f(x): return D(x + 1, k=3)",
        graphs=["add"],
        prelude=DATACLASS,
    ),
    Case(
        "dataclass argument",
        "def f(d): return d.scaled()",
        inputs=["D(t(3))", "D(t(3))"],
        graphs=["mul"],
        prelude=DATACLASS,
    ),
    Case(
        "dataclass mutated",
        """
        def f(d):
            d.k = 5
            d.log.append(d.x + d.k)
            return d
        """,
        inputs=["D(t(3))", "D(t(3))"],
        graphs=["add"],
        prelude=DATACLASS,
    ),
    Case(
        "dataclass replace",
        "def f(d): return replace(d, x=d.x * 2)",
        inputs=["D(t(3))", "D(t(3))"],
        graphs=["mul"],
        prelude=DATACLASS,
    ),
    Case(
        "dataclass fields",
        "def f(d): return d.x * len(fields(d)) + len(fields(D)[0].name)",
        inputs=["D(t(3))", "D(t(3))"],
        graphs=["mul add"],
        prelude=DATACLASS,
    ),
    Case(
        "frozen dataclass",
        """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class C:
            k: int = 3
        def f(x, c): return x * c.k
        """,
        inputs=["t(3), C()", "t(3), C(4)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "frozen dataclass made inside",
        """
        from dataclasses import dataclass
        @dataclass(frozen=True)
        class C:
            k: int = 3
        def f(x): return x * C(4).k
        """,
        graphs=["mul"],
    ),
    Case(
        "dataclass equality and order",
        """
        from dataclasses import dataclass
        @dataclass(order=True)
        class C:
            k: int
        def f(x): return x + 1 if C(1) == C(1) and C(1) < C(2) else x
        """,
        graphs=["add"],
    ),
    Case(
        "dataclass __post_init__",
        """
        from dataclasses import dataclass
        @dataclass
        class C:
            x: object
            def __post_init__(self): self.y = self.x * 2
        def f(x): return C(x).y
        """,
        graphs=["mul"],
    ),
    Case(
        "dataclass inheritance",
        """
        from dataclasses import dataclass
        @dataclass
        class A:
            x: object
        @dataclass
        class B(A):
            k: int = 4
        def f(x):
            b = B(x)
            return b.x * b.k
        """,
        graphs=["mul"],
    ),
    Case(
        "enum member",
        """
        import enum
        class E(enum.Enum):
            A = 1
            B = 2
        def f(x, e): return x.sin() if e is E.A else x.cos()
        """,
        inputs=["t(3), E.A", "t(3), E.B"],
        graphs=["sin", "cos"],
        compiles=2,
    ),
    Case(
        "enum value and name",
        """
        import enum
        class E(enum.Enum):
            A = 3
        def f(x, e): return x * e.value + len(e.name)
        """,
        inputs=["t(3), E.A", "t(3), E.A"],
        graphs=["mul add"],
    ),
    Case(
        "enum lookup",
        """
        import enum
        class E(enum.Enum):
            A = 3
        def f(x): return x + 1 if E(3) is E['A'] else x
        """,
        graphs=["add"],
    ),
    Case(
        "enum iteration",
        """
        import enum
        class E(enum.Enum):
            A = 3
            B = 4
        def f(x): return [x * e.value for e in E]
        """,
        graphs=["mul mul"],
    ),
    Case(
        "IntEnum and Flag",
        """
        import enum
        class I(enum.IntEnum):
            A = 3
        class G(enum.Flag):
            R = 1
            W = 2
        def f(x): return x * I.A if G.R in (G.R | G.W) else x
        """,
        graphs=["mul"],
    ),
    Case(
        "str enum as key",
        """
        import enum
        class S(str, enum.Enum):
            A = 'a'
        def f(x, d): return x * d[S.A]
        """,
        inputs=["t(3), {S.A: 3}", "t(3), {S.A: 3}"],
        graphs=["mul"],
    ),
    Case(
        "SimpleNamespace",
        """
        from types import SimpleNamespace
        def f(x, n):
            n.out = x * n.k
            return n
        """,
        inputs=["t(3), SimpleNamespace(k=2)", "t(3), SimpleNamespace(k=2)"],
        graphs=["mul"],
    ),
    Case(
        "contextmanager",
        """
        import contextlib
        @contextlib.contextmanager
        def m(log):
            log.append('in')
            yield 3
            log.append('out')
        def f(x, log):
            with m(log) as k:
                x = x * k
            return x
        """,
        inputs=["t(3), []", "t(3), []"],
        graphs=["mul"],
    ),
    Case(
        "nullcontext and suppress",
        """
        import contextlib
        def f(x):
            with contextlib.nullcontext(2) as k, contextlib.suppress(KeyError):
                x = x * k
                {}['a']
            return x + 1
        """,
        graphs=["mul add"],
    ),
    Case(
        "ExitStack",
        """
        import contextlib
        def f(x):
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.no_grad())
                x = x * 2
            return x
        """,
        graphs=1,
        fullgraph=False,
        compiles=None,
    ),
]

MATCH = [
    Case(
        "match constants",
        """
        def f(x, n):
            match n:
                case 1: return x + 1
                case 'two' | 2: return x * 2
                case _: return -x
        """,
        inputs=["t(3), 2", "t(3), 9"],
        graphs=["mul", "neg"],
        compiles=2,
    ),
    Case(
        "match sequence",
        """
        def f(x, p):
            match p:
                case [a]: return x * a
                case [a, b, *rest]: return x * a + b + len(rest)
        """,
        inputs=["t(3), [2, 3, 4]", "t(3), [2, 3, 4]"],
        graphs=["mul add add"],
    ),
    Case(
        "match mapping",
        """
        def f(x, d):
            match d:
                case {'op': 'add', 'n': n, **rest}: return x + n + len(rest)
                case {'op': 'neg'}: return -x
        """,
        inputs=["t(3), {'op': 'add', 'n': 3, 'z': 1}", "t(3), {'op': 'neg'}"],
        graphs=["add add", "neg"],
        compiles=2,
    ),
    Case(
        "match class",
        """
        P.__match_args__ = ('x', 'k')
        def f(p):
            match p:
                case P(k=0): return 0
                case P(x, k) if k > 1: return x * k
        """,
        inputs=["P(t(3), 2)", "P(t(3), 2)"],
        graphs=["mul"],
        prelude=POINT,
    ),
    Case(
        "match builtin types",
        """
        def f(x, v):
            match v:
                case int(n): return x + n
                case str(): return x * 2
                case None: return -x
        """,
        inputs=["t(3), 4", "t(3), None"],
        graphs=["add", "neg"],
        compiles=2,
    ),
    Case(
        "match capture and guard",
        """
        def f(x, n):
            match n:
                case k if k > 3: return x * k
                case k: return x + k
        """,
        inputs=["t(3), 5", "t(3), 5"],
        graphs=["mul"],
    ),
    Case(
        "match attribute value",
        """
        import enum
        class E(enum.Enum):
            A = 1
            B = 2
        def f(x, e):
            match e:
                case E.A: return x + 1
                case E.B: return x - 1
        """,
        inputs=["t(3), E.A", "t(3), E.B"],
        graphs=["add", "sub"],
        compiles=2,
    ),
]


@pytest.mark.parametrize("case", LIBRARY + MATCH, ids=lambda case: case.name)
def test_library_classes(case: Case) -> None:
    case.check()
