"""Guards and recompilation: same facts never compile again, other facts never reuse."""

from __future__ import annotations

import pytest

from tests.capture.language import Case


def _again(name: str, program: str, first: str, second: str, guards: tuple[str, ...] = ()) -> Case:
    """The second call differs in a fact the code depends on: two compiles."""
    return Case(name, program, [first, second, first], None, guards=guards, compiles=2)


def _reuse(name: str, program: str, *inputs: str) -> Case:
    """All calls have the same facts: one compile."""
    return Case(name, program, inputs, None, compiles=1)


ADD = "def f(x): return x + 1"

TENSORS = [
    _again("shape", ADD, "t(3)", "t(4)", ("L['x']",)),
    _again("number of dimensions", ADD, "t(3)", "t(3, 1)"),
    _again("dtype", ADD, "t(3)", "t(3, dtype=torch.float64)"),
    _again("stride", ADD, "t(2, 3)", "t(3, 2).T"),
    _again("requires_grad", ADD, "t(3)", "t(3, grad=True)"),
    _again("parameter", ADD, "t(3)", "nn.Parameter(t(3))"),
    _again(
        "subclass",
        """
        class S(torch.Tensor): pass
        def f(x): return x + 1 if type(x) is torch.Tensor else x
        """,
        "t(3)",
        "t(3).as_subclass(S)",
    ),
    _again("size one", ADD, "t(3)", "t(1)"),
    _again("empty", ADD, "t(3)", "t(0)"),
    _again("scalar tensor and number", ADD, "t()", "2.0"),
    _again("None instead of a tensor", "def f(x, y=None): return x if y is None else x + y", "t(3)", "t(3), t(3)"),
    _again("number instead of a tensor", "def f(x, y): return x + y", "t(3), t(3)", "t(3), 2"),
    _again("conjugate bit", "def f(x): return x * 2", "t(3, dtype=torch.complex64)", "t(3, dtype=torch.complex64).conj()"),
    _reuse("other values", ADD, "t(3)", "t(3)", "t(3)"),
    Case(
        "generators of random numbers",
        "def f(x, g): return x + torch.rand(3, generator=g, device=g.device)",
        [f"t(3), torch.Generator().manual_seed({seed})" for seed in range(5)],
        None,
        compiles=2,
    ),
    _reuse("storage offset", ADD, "t(6)[3:]", "t(6)[:3]"),
    _reuse("view or base", ADD, "t(3)", "t(6)[:3]"),
    _reuse("leaf or not", "def f(x): return x + 1", "t(3, grad=True)", "t(3, grad=True) * 2"),
    _reuse("keyword or position", "def f(x, y): return x - y", "t(3), t(3)", "x=t(3), y=t(3)"),
    Case("shapes come back", ADD, ["t(3)", "t(4)", "t(3)", "t(4)", "t(5)"], ["add"], compiles=3),
]

VALUES = [
    _again("int", "def f(x, n): return x + n", "t(3), 1", "t(3), 2", ("L['n']",)),
    _again("float", "def f(x, n): return x + n", "t(3), 1.5", "t(3), 2.5"),
    _again("bool", "def f(x, b): return x + 1 if b else x", "t(3), True", "t(3), False"),
    _again("str", "def f(x, s): return x + len(s)", "t(3), 'a'", "t(3), 'bb'"),
    _again("None", "def f(x, n): return x if n is None else x + 1", "t(3), None", "t(3), 1"),
    _again("dtype argument", "def f(x, d): return x.to(d)", "t(3), torch.float64", "t(3), torch.int32"),
    _again("device argument", "def f(x, d): return x + torch.zeros(3, device=d)", "t(3), 'cpu'", "t(3), torch.device('cpu')"),
    _again("int and bool", "def f(x, n): return x + n", "t(3), 1", "t(3), True"),
    _again("int and float", "def f(x, n): return x * n", "t(3), 1", "t(3), 1.0"),
    _again("list length", "def f(x, ns): return x + sum(ns)", "t(3), [1]", "t(3), [1, 2]"),
    _again("list element", "def f(x, ns): return x + ns[0]", "t(3), [1]", "t(3), [2]"),
    _again("list and tuple", "def f(x, ns): return x + ns[0]", "t(3), [1]", "t(3), (1,)"),
    _again("tensor in a list", "def f(xs): return xs[0] + 1", "[t(3)]", "[t(4)]"),
    _again("dict keys", "def f(x, d): return x + len(d)", "t(3), {'a': 1}", "t(3), {'a': 1, 'b': 1}"),
    _again("dict value", "def f(x, d): return x + d['a']", "t(3), {'a': 1}", "t(3), {'a': 2}"),
    _again("dict value type", "def f(x, d): return x + d['a']", "t(3), {'a': 1}", "t(3), {'a': t(3)}"),
    _again("set elements", "def f(x, s): return x + 1 if 2 in s else x", "t(3), {1, 2}", "t(3), {1, 3}"),
    _again(
        "class of an object",
        """
        class A: k = 1
        class B: k = 2
        def f(x, o): return x * o.k
        """,
        "t(3), A()",
        "t(3), B()",
    ),
    _again(
        "attribute of an object",
        """
        class A:
            def __init__(self, k): self.k = k
        def f(x, o): return x * o.k
        """,
        "t(3), A(1)",
        "t(3), A(2)",
    ),
    _again(
        "attribute appears",
        """
        class A:
            def __init__(self, **kw): self.__dict__.update(kw)
        def f(x, o): return x * getattr(o, 'k', 3)
        """,
        "t(3), A()",
        "t(3), A(k=2)",
    ),
    _again(
        "attribute shadows the class",
        """
        class A:
            k = 1
            def __init__(self, **kw): self.__dict__.update(kw)
        def f(x, o): return x * o.k
        """,
        "t(3), A()",
        "t(3), A(k=2)",
    ),
    _again(
        "nested attribute",
        """
        class A:
            def __init__(self, k): self.k = k
        def f(x, o): return x * o.k.k
        """,
        "t(3), A(A(1))",
        "t(3), A(A(2))",
    ),
    _again(
        "enum member",
        """
        import enum
        class E(enum.Enum):
            A = 1
            B = 2
        def f(x, e): return x * e.value
        """,
        "t(3), E.A",
        "t(3), E.B",
    ),
    _again(
        "two arguments become one object",
        """
        def f(a, b):
            a.append(1)
            return len(b)
        """,
        "[], []",
        "*[[]] * 2",
    ),
    _again(
        "closure of a function argument",
        """
        def make(k): return lambda x: x * k
        def f(x, g): return g(x)
        """,
        "t(3), make(2)",
        "t(3), make(3)",
    ),
    _again(
        "default of a function argument",
        """
        def make(k):
            def g(x, k=k): return x * k
            return g
        def f(x, g): return g(x)
        """,
        "t(3), make(2)",
        "t(3), make(3)",
    ),
    _again(
        "partial argument",
        """
        from functools import partial
        def f(x, g): return g(x)
        """,
        "t(3), partial(torch.add, other=1)",
        "t(3), partial(torch.add, other=2)",
    ),
    _again(
        "code of a function argument",
        """
        def g(x): return x + 1
        def h(x): return x + 2
        def f(x, fn): return fn(x)
        """,
        "t(3), g",
        "t(3), h",
    ),
    _again("range", "def f(x, r): return [x + i for i in r]", "t(3), range(1)", "t(3), range(2)"),
    _again("slice", "def f(x, s): return x[s] + 1", "t(4), slice(0, 2)", "t(4), slice(1, 3)"),
    _again(
        "namedtuple field",
        """
        from collections import namedtuple
        P = namedtuple('P', 'a')
        def f(x, p): return x + p.a
        """,
        "t(3), P(1)",
        "t(3), P(2)",
    ),
    _again("torch.Size argument", "def f(x, s): return x.new_zeros(s) + 1", "t(3), torch.Size([2])", "t(3), torch.Size([3])"),
    _again("type argument", "def f(x, c): return x + 1 if c is int else x - 1", "t(3), int", "t(3), float"),
    _reuse("unread argument of any value", "def f(x, n): return x + 1", "t(3), 1", "t(3), 1"),
    _reuse("equal strings", "def f(x, s): return x + len(s)", "t(3), 'ab'", "t(3), ''.join(['a', 'b'])"),
    _reuse("equal lists", "def f(x, ns): return x + ns[0]", "t(3), [1, 2]", "t(3), [1, 2]"),
    _reuse("equal dicts", "def f(x, d): return x + d['a']", "t(3), {'a': 1}", "t(3), {'a': 1}"),
    _reuse(
        "objects with equal attributes",
        """
        class A:
            def __init__(self, k): self.k = k
        def f(x, o): return x * o.k
        """,
        "t(3), A(2)",
        "t(3), A(2)",
    ),
    _reuse(
        "new closures of one function",
        """
        def make(k): return lambda x: x * k
        def f(x, g): return g(x)
        """,
        "t(3), make(2)",
        "t(3), make(2)",
    ),
    _reuse(
        "new bound methods",
        """
        class A:
            k = 2
            def g(self, x): return x * self.k
        a = A()
        def f(x, g): return g(x)
        """,
        "t(3), a.g",
        "t(3), a.g",
    ),
    _reuse(
        "attribute that is not read",
        """
        class A:
            def __init__(self, k): self.k, self.q = 1, k
        def f(x, o): return x * o.k
        """,
        "t(3), A(1)",
        "t(3), A(2)",
    ),
    _reuse("large integers", "def f(x, n): return x * (n > 0)", "t(3), 10**20", "t(3), 10**20"),
]

GLOBALS = [
    Case(
        "global number changed",
        """
        K = 1
        def put(k):
            global K
            K = k
        def f(x, _): return x * K
        """,
        inputs=["t(3), put(1)", "t(3), put(2)", "t(3), put(1)"],
        graphs=["mul"],
        guards=["K"],
        compiles=2,
    ),
    Case(
        "global function replaced",
        """
        def g(x): return x + 1
        def h(x): return x - 1
        def put():
            global g
            g = h
        def f(x, _): return g(x)
        """,
        inputs=["t(3), 0", "t(3), put()"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "global tensor replaced by one like it",
        """
        W = torch.ones(3)
        def put():
            global W
            W = torch.zeros(3)
        def f(x, _): return x * W
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["mul"],
        compiles=None,
    ),
    Case(
        "global tensor of another shape",
        """
        W = torch.ones(3)
        def put():
            global W
            W = torch.zeros(1)
        def f(x, _): return x * W
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "global list grown",
        """
        L = [1]
        def f(x, _): return x * len(L)
        """,
        inputs=["t(3), None", "t(3), L.append(2)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "global unrelated changed",
        """
        K, Q = 1, 1
        def put(q):
            global Q
            Q = q
        def f(x, _): return x * K
        """,
        inputs=["t(3), put(1)", "t(3), put(2)"],
        graphs=["mul"],
        compiles=1,
    ),
    Case(
        "class attribute changed",
        """
        class A: k = 1
        def put(k): A.k = k
        def f(x, _): return x * A.k
        """,
        inputs=["t(3), put(1)", "t(3), put(2)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "method replaced on the class",
        """
        class A:
            def g(self, x): return x + 1
        a = A()
        def put(): A.g = lambda self, x: x - 1
        def f(x, _): return a.g(x)
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "method shadowed on the instance",
        """
        class A:
            def g(self, x): return x + 1
        a = A()
        def put(): a.g = lambda x: x - 1
        def f(x, _): return a.g(x)
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "code of a called function replaced",
        """
        def g(x): return x + 1
        def h(x): return x - 1
        def put(): g.__code__ = h.__code__
        def f(x, _): return g(x)
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "defaults of a called function replaced",
        """
        def g(x, k=1): return x * k
        def put(): g.__defaults__ = (5,)
        def f(x, _): return g(x)
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "closure cell changed",
        """
        def make():
            k = 1
            def put(v):
                nonlocal k
                k = v
            def f(x, _): return x * k
            return f, put
        f, put = make()
        """,
        inputs=["t(3), put(1)", "t(3), put(2)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "builtin shadowed by a global",
        """
        def put():
            global len
            len = lambda v: 7
        def f(x, _): return x * len([1])
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "attribute of an imported module",
        """
        import types
        mod = types.ModuleType('mod')
        mod.k = 1
        def put(k): mod.k = k
        def f(x, _): return x * mod.k
        """,
        inputs=["t(3), put(1)", "t(3), put(2)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "object replaced by an equal one",
        """
        class A:
            def __init__(self, k): self.k = k
        a = A(2)
        def put():
            global a
            a = A(2)
        def f(x, _): return x * a.k
        """,
        inputs=["t(3), None", "t(3), put()"],
        graphs=["mul"],
        compiles=None,
    ),
]

CALLERS = [
    Case(
        "recursion compiles once per depth",
        """
        def g(x, n): return x if n == 0 else g(x, n - 1) + n
        def f(x, n): return g(x, n)
        """,
        inputs=["t(3), 2", "t(3), 3", "t(3), 2"],
        graphs=None,
        compiles=2,
    ),
    Case("eight shapes", ADD, [f"t({n})" for n in range(2, 10)], ["add"], compiles=8),
    Case("more shapes than the limit", ADD, [f"t({n})" for n in range(2, 14)], ["add"], fullgraph=False, compiles=None),
    Case(
        "method of two objects",
        """
        class A:
            def __init__(self, k): self.k = k
            def g(self, x): return x * self.k
        a, b = A(2), A(3)
        def f(x, o): return o.g(x)
        """,
        inputs=["t(3), a", "t(3), b", "t(3), a"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "guards of a broken frame",
        """
        def f(x, n):
            y = x + n
            print('mid')
            return y * n
        """,
        inputs=["t(3), 2", "t(3), 3", "t(3), 2"],
        graphs=["add", "mul"],
        breaks=["*:3"],
        compiles=4,
    ),
    Case(
        "second half recompiles alone",
        """
        K = 1
        def put(k):
            global K
            K = k
        def f(x, _):
            y = x + 1
            print('mid')
            return y * K
        """,
        inputs=["t(3), put(1)", "t(3), put(2)"],
        graphs=["add", "mul"],
        breaks=["*:7"],
        compiles=3,
    ),
]


@pytest.mark.parametrize("case", TENSORS + VALUES, ids=lambda case: case.name)
def test_argument_guards(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", GLOBALS + CALLERS, ids=lambda case: case.name)
def test_other_guards(case: Case) -> None:
    case.check()
