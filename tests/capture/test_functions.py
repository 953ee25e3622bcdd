"""Calls: parameters, defaults, closures, globals, lambdas, partials, decorators, inlining."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

CASES = [
    Case("one operator", "def f(x): return torch.sin(x)", graphs=["sin"]),
    Case("method and operator", "def f(x): return x.sin() + 1", graphs=["sin add"]),
    Case("two arguments", "def f(x, y): return x * y", ["t(3), t(3)", "t(3), t(3)"], ["mul"]),
    Case("argument returned as it is", "def f(x): return x, x.cos()", graphs=["cos"]),
    Case("unused argument", "def f(x, unused): return -x", ["t(3), t(4)", "t(3), t(4)"], ["neg"]),
    Case("no tensors at all", "def f(a, b): return a + b", ["1, 2", "1, 2"], []),
    Case("returns None", "def f(x): x.sin()", graphs=None),
    Case(
        "locals reassigned",
        """
                def f(x):
                    y = x + 1
                    x = y * 2
                    y = x - 3
                    return x, y

        """,
        graphs=["add mul sub"],
    ),
    Case(
        "local deleted",
        """
                def f(x):
                    y = x.sin()
                    z = y.cos()
                    del y
                    return z

        """,
        graphs=["sin cos"],
    ),
    Case(
        "multiple assignment and swap",
        """
                def f(x, y):
                    a = b = x + 1
                    a, y = y, a
                    return a - b * y

        """,
        inputs=["t(3), t(3)", "t(3), t(3)"],
        graphs=["add mul sub"],
    ),
    Case("walrus", "def f(x): return (y := x.sin()) + y", graphs=["sin add"]),
    Case(
        "conditional expression",
        "def f(x, flag): return x.sin() if flag else x.cos()",
        inputs=["t(3), True", "t(3), False"],
        graphs=["sin", "cos"],
        compiles=2,
    ),
    Case("short circuit and", "def f(x, n): return n and x + n", ["t(3), 2", "t(3), 0"], ["add"], compiles=2),
    Case("short circuit or", "def f(x, n): return n or x.sin()", ["t(3), None", "t(3), 0"], ["sin"], compiles=2),
    Case("chained comparison", "def f(x, n): return x + 1 if 0 < n < 5 else x - 1", ["t(3), 2", "t(3), 7"], ["add", "sub"], compiles=2),
    Case("default argument", "def f(x, k=2): return x * k", ["t(3)", "t(3), 2"], ["mul"]),
    Case("default argument overridden", "def f(x, k=2): return x * k", ["t(3)", "t(3), 3"], ["mul"], compiles=2),
    Case("default that is a tensor", "def f(x, y=torch.ones(3)): return x + y", ["t(3)", "t(3), t(3)"], ["add"], compiles=None),
    Case(
        "mutable default",
        """
        def f(x, seen=[]):
            seen.append(len(seen))
            return x + len(seen)
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add"],
        compiles=2,
    ),
    Case("keyword-only", "def f(x, *, k): return x * k", ["t(3), k=2", "t(3), k=2"], ["mul"]),
    Case("keyword-only default", "def f(x, *, k=4): return x * k", ["t(3)", "t(3), k=4"], ["mul"]),
    Case("positional-only", "def f(x, /, y): return x - y", ["t(3), t(3)", "t(3), y=t(3)"], ["sub"]),
    Case("keywords in another order", "def f(x, y): return x - y", ["x=t(3), y=t(3)", "y=t(3), x=t(3)"], ["sub"]),
    Case("star args", "def f(*xs): return xs[0] + xs[-1]", ["t(3), t(3)", "t(3), t(3)"], ["add"]),
    Case("star args of another length", "def f(*xs): return xs[0] * len(xs)", ["t(3)", "t(3), t(3)"], ["mul"], compiles=2),
    Case("double star kwargs", "def f(**kw): return kw['a'] + kw['b']", ["a=t(3), b=t(3)", "a=t(3), b=t(3)"], ["add"]),
    Case("kwargs with another key", "def f(x, **kw): return x + len(kw)", ["t(3), a=1", "t(3), b=1"], ["add"], compiles=2),
    Case(
        "call with star",
        """
        def g(a, b, c): return a + b * c
        def f(x, ys): return g(x, *ys)
        """,
        inputs=["t(3), [t(3), 2]", "t(3), [t(3), 2]"],
        graphs=["mul add"],
    ),
    Case(
        "call with double star",
        """
        def g(a, *, s): return a * s
        def f(x, kw): return g(x, **kw)
        """,
        inputs=["t(3), {'s': 2}", "t(3), {'s': 2}"],
        graphs=["mul"],
    ),
    Case(
        "call mixing all kinds",
        """
        def g(a, b=1, *c, d, **e): return a * b + sum(c) + d + e['z']
        def f(x): return g(x, 2, 3, 4, d=5, z=6)
        """,
        graphs=["mul add add add"],
    ),
    Case(
        "global function",
        """
        def g(x): return x.sin()
        def f(x): return g(g(x))
        """,
        graphs=["sin sin"],
    ),
    Case(
        "global tensor",
        """
        W = torch.arange(3.0)
        def f(x): return x * W
        """,
        graphs=["mul"],
    ),
    Case(
        "global number",
        """
        K = 3
        def f(x): return x * K
        """,
        graphs=["mul"],
        guards=["K"],
    ),
    Case(
        "global changed between calls",
        """
        K = 1
        def f(x, k):
            global K
            K = k
            return x * K
        """,
        inputs=["t(3), 2", "t(3), 2"],
        graphs=["mul"],
        compiles=None,
    ),
    Case(
        "global read and written",
        """
        COUNT = 0
        def f(x):
            global COUNT
            COUNT += 1
            return x * 2
        """,
        graphs=["mul"],
        compiles=1,
    ),
    Case(
        "global list appended",
        """
        LOG = []
        def f(x):
            LOG.append(x.sin())
            return x + 1
        """,
        graphs=["sin add"],
        compiles=1,
    ),
    Case(
        "module global through import",
        """
        import math
        def f(x): return x * math.pi
        """,
        graphs=["mul"],
    ),
    Case(
        "import inside",
        """
        def f(x):
            import math
            return x * math.e
        """,
        graphs=["mul"],
    ),
    Case(
        "from import inside",
        """
        def f(x):
            from math import sqrt
            return x * sqrt(4.0)
        """,
        graphs=["mul"],
    ),
    Case(
        "closure over number",
        """
        def make(k):
            def f(x): return x * k
            return f
        f = make(3)
        """,
        graphs=["mul"],
    ),
    Case(
        "closure over tensor",
        """
        def make(w):
            def f(x): return x * w
            return f
        f = make(torch.ones(3))
        """,
        graphs=["mul"],
    ),
    Case(
        "closure changed between calls",
        """
        def make():
            n = 0
            def f(x):
                nonlocal n
                n += 1
                return x + n
            return f
        f = make()
        """,
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "closure over list",
        """
        def make():
            log = []
            def f(x):
                log.append(x + 1)
                return len(log)
            return f
        f = make()
        """,
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "inner function",
        """
        def f(x):
            def g(y): return y + x
            return g(x.sin())
        """,
        graphs=["sin add"],
    ),
    Case(
        "inner function sees later assignment",
        """
        def f(x):
            k = 1
            def g(y): return y * k
            k = 5
            return g(x)
        """,
        graphs=["mul"],
    ),
    Case(
        "nonlocal in inner function",
        """
        def f(x):
            n = x
            def g():
                nonlocal n
                n = n + 1
            g()
            g()
            return n
        """,
        graphs=["add add"],
    ),
    Case(
        "three levels of closure",
        """
        def f(x):
            def g():
                def h(): return x.sin()
                return h() + 1
            return g()
        """,
        graphs=["sin add"],
    ),
    Case("lambda", "def f(x): return (lambda y, k=2: y * k)(x)", graphs=["mul"]),
    Case("lambda argument", "def f(x, fn): return fn(x) + 1", ["t(3), torch.sin", "t(3), torch.sin"], ["sin add"]),
    Case(
        "another function recompiles",
        """
        def g(x): return x.sin()
        def h(x): return x.cos()
        def f(x, fn): return fn(x)
        """,
        inputs=["t(3), g", "t(3), h"],
        graphs=["sin", "cos"],
        compiles=2,
    ),
    Case(
        "returned closure",
        """
        def f(x):
            y = x.sin()
            return lambda: y
        """,
        graphs=["sin"],
    ),
    Case(
        "returned function is called by the caller",
        """
        def f(x):
            k = 3
            def g(z): return z * k
            return g
        """,
        graphs=[],
        compiles=None,
    ),
    Case(
        "partial",
        """
        import functools
        def g(a, b, c): return a - b * c
        def f(x): return functools.partial(g, x, c=2)(x)
        """,
        graphs=["mul sub"],
    ),
    Case(
        "partial of partial",
        """
        from functools import partial
        def g(a, b, c): return a - b * c
        h = partial(partial(g, c=3), b=2)
        def f(x): return h(x)
        """,
        graphs=["sub"],
    ),
    Case(
        "partial as argument",
        """
        from functools import partial
        def f(x, p): return p(x)
        """,
        inputs=["t(3), partial(torch.mul, other=2)", "t(3), partial(torch.mul, other=2)"],
        graphs=["mul"],
        compiles=None,
    ),
    Case(
        "partial attributes",
        """
        from functools import partial
        def g(a, b): return a + b
        p = partial(g, b=4)
        def f(x): return p.func(x, p.keywords['b'] + len(p.args))
        """,
        graphs=["add"],
    ),
    Case(
        "recursion",
        """
        def g(x, n): return x if n == 0 else g(x.sin(), n - 1)
        def f(x): return g(x, 4)
        """,
        graphs=["sin sin sin sin"],
    ),
    Case(
        "mutual recursion",
        """
        def even(x, n): return x if n == 0 else odd(x + 1, n - 1)
        def odd(x, n): return even(x * 2, n - 1)
        def f(x): return even(x, 4)
        """,
        graphs=["add mul add mul"],
    ),
    Case(
        "recursive closure",
        """
        def f(x):
            def go(n): return x if n == 0 else go(n - 1) * 2
            return go(3)
        """,
        graphs=["mul mul mul"],
    ),
    Case(
        "decorator with wraps",
        """
        import functools
        def twice(fn):
            @functools.wraps(fn)
            def inner(*args, **kw): return fn(fn(*args, **kw))
            return inner
        @twice
        def g(x): return x.sin()
        def f(x): return g(x)
        """,
        graphs=["sin sin"],
    ),
    Case(
        "decorator with argument",
        """
        def scale(k):
            def deco(fn):
                return lambda x: fn(x) * k
            return deco
        @scale(3)
        def f(x): return x + 1
        """,
        graphs=["add mul"],
    ),
    Case(
        "function attribute read",
        """
        def g(x): return x * g.k
        g.k = 3
        def f(x): return g(x)
        """,
        graphs=["mul"],
    ),
    Case(
        "function attribute written",
        """
        def g(): pass
        def f(x):
            g.last = x.sin()
            return x + 1
        """,
        compiles=None,
        fullgraph=False,
    ),
    Case(
        "function name",
        """
        def g(x): return x
        def f(x): return x + len(g.__name__)
        """,
        graphs=["add"],
    ),
    Case(
        "builtin operator functions",
        """
        import operator
        def f(x): return operator.mul(operator.add(x, 1), operator.neg(x))
        """,
        graphs=["add neg mul"],
    ),
    Case(
        "itemgetter and attrgetter",
        """
        import operator
        def f(x): return operator.itemgetter(1)([x, x.sin()]) * operator.attrgetter('ndim')(x)
        """,
        graphs=["sin mul"],
    ),
    Case(
        "methodcaller",
        """
        import operator
        def f(x): return operator.methodcaller('sum', 0)(x)
        """,
        graphs=["sum"],
    ),
    Case("callable test", "def f(x, g): return g(x) if callable(g) else x + g", ["t(3), torch.cos", "t(3), 2"], ["cos", "add"], compiles=2),
    Case(
        "lru_cache on a helper",
        """
        import functools
        @functools.lru_cache
        def size(n): return n * 2
        def f(x): return x + size(x.shape[0])
        """,
        graphs=["add"],
    ),
    Case(
        "functools.reduce",
        """
        import functools
        def f(x): return functools.reduce(lambda a, b: a * b, [x, x + 1, x + 2])
        """,
        graphs=["add add mul mul"],
    ),
    Case(
        "bound method as argument",
        """
        class A:
            def m(self, x): return x.sin()
        a = A()
        def f(x, g): return g(x)
        """,
        inputs=["t(3), a.m", "t(3), a.m"],
        graphs=["sin"],
    ),
    Case(
        "torch function in a variable",
        """
        def f(x):
            op = torch.relu if x.ndim else torch.sin
            return op(x)
        """,
        graphs=["relu"],
    ),
    Case(
        "torch function from a dict",
        """
        OPS = {'sin': torch.sin, 'cos': torch.cos}
        def f(x, name): return OPS[name](x)
        """,
        inputs=["t(3), 'sin'", "t(3), 'cos'"],
        graphs=["sin", "cos"],
        compiles=2,
    ),
    Case("getattr on torch", "def f(x, name): return getattr(torch, name)(x)", ["t(3), 'sin'", "t(3), 'sin'"], ["sin"]),
    Case("unbound tensor method", "def f(x): return torch.Tensor.add(x, 1)", graphs=["add"]),
    Case(
        "many arguments",
        "def f(a, b, c, d, e, g, h): return a + b + c + d + e + g + h",
        inputs=["*[t(2) for _ in range(7)]", "*[t(2) for _ in range(7)]"],
        graphs=["add add add add add add"],
    ),
    Case("same tensor twice", "def f(x, y): return x + y", ["*[t(3)] * 2", "*[t(3)] * 2"], ["add"]),
    Case(
        "aliased then distinct arguments",
        """
        def f(x, y):
            x.add_(1)
            return x + y
        """,
        inputs=["*[t(3)] * 2", "t(3), t(3)"],
        graphs=["add_ add"],
        compiles=2,
    ),
    Case(
        "annotated assignments",
        """
        def f(x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = x + 1
            return y
        """,
        graphs=["add"],
    ),
    Case(
        "global declared in a helper",
        """
        STATE = 1
        def bump():
            global STATE
            STATE = STATE * 2
        def f(x):
            bump()
            bump()
            return x * STATE
        """,
        graphs=["mul"],
        compiles=2,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_functions(case: Case) -> None:
    case.check()
