"""Exceptions that reach the caller: same type, same message, same effects before them."""

from __future__ import annotations

import pytest

from tests.capture.language import Case


def _escapes(name: str, program: str, inputs: list[str] | None = None) -> Case:
    """The exception reaches the caller; compared with eager are its type, message and all mutations before it."""
    return Case(name, program, inputs or ["t(3)", "t(3)"], fullgraph=False, compiles=None)


ESCAPING = [
    _escapes(
        "raise",
        """
        def f(x):
            y = x + 1
            raise ValueError('message', 3)
        """,
    ),
    _escapes(
        "raise in a callee",
        """
        def g(x): raise KeyError('inner')
        def f(x): return g(x.sin())
        """,
    ),
    _escapes(
        "raise after mutation",
        """
        def f(x, log):
            log.append(x + 1)
            x.add_(1)
            raise RuntimeError('late')
        """,
        ["t(3), []"] * 2,
    ),
    _escapes(
        "raise after global mutation",
        """
        COUNT = 0
        def f(x):
            global COUNT
            COUNT += 1
            raise ValueError(COUNT)
        """,
    ),
    _escapes(
        "raise on one input only",
        """
        def f(x, n):
            if n < 0: raise ValueError(f'negative {n}')
            return x * n
        """,
        ["t(3), 2", "t(3), -1"],
    ),
    _escapes(
        "user exception",
        """
        class Mine(Exception):
            def __init__(self, n):
                super().__init__(n)
                self.n = n
        def f(x): raise Mine(4)
        """,
    ),
    _escapes(
        "raise from",
        """
        def f(x):
            try:
                {}['k']
            except KeyError as e:
                raise ValueError('wrapped') from e
        """,
    ),
    _escapes(
        "failing assert",
        """
        def f(x):
            y = x.sin()
            assert x.ndim == 2, f'ndim {x.ndim}'
            return y
        """,
    ),
    _escapes("KeyError", "def f(x, d): return x * d['missing']", ["t(3), {}"] * 2),
    _escapes("IndexError", "def f(x, xs): return xs[3]", ["t(3), [1]"] * 2),
    _escapes(
        "AttributeError",
        """
        class A: pass
        def f(x, a): return x + a.nothing
        """,
        ["t(3), A()"] * 2,
    ),
    _escapes("AttributeError on a tensor", "def f(x): return x.no_such_method()"),
    _escapes("NameError", "def f(x): return x + not_defined"),
    _escapes(
        "UnboundLocalError",
        """
        def f(x, flag):
            if flag: y = x
            return y + 1
        """,
        ["t(3), True", "t(3), False"],
    ),
    _escapes(
        "unbound closure cell",
        """
        def f(x):
            def g(): return later
            y = g()
            later = 1
            return y
        """,
    ),
    _escapes("TypeError of a missing argument", "def f(x, y): return x + y", ["t(3)", "t(3)"]),
    _escapes("TypeError of an unexpected keyword", "def f(x): return x", ["t(3), q=1", "t(3)"]),
    _escapes("TypeError of too many arguments", "def f(x): return x", ["t(3), 1", "t(3)"]),
    _escapes(
        "TypeError in a callee",
        """
        def g(a, b): return a
        def f(x): return g(x)
        """,
    ),
    _escapes("ZeroDivisionError", "def f(x, n): return x * (n // 0)", ["t(3), 1"] * 2),
    _escapes("shape error of an operator", "def f(x): return x + torch.ones(4)"),
    _escapes("shape error of matmul", "def f(x): return torch.ones(2, 3) @ torch.ones(2, 3) + x"),
    _escapes("dtype error", "def f(x): return torch.bitwise_and(x, x)"),
    _escapes("wrong operator arguments", "def f(x): return torch.sum(x, dim=7)"),
    _escapes("index out of range of a tensor", "def f(x): return x[5]"),
    _escapes("in-place on a leaf", "def f(x): return x.add_(1)", ["t(3, grad=True)"] * 2),
    _escapes(
        "finally runs",
        """
        def f(x, log):
            try:
                raise ValueError('v')
            finally:
                log.append('finally')
        """,
        ["t(3), []"] * 2,
    ),
    _escapes(
        "exception through no_grad",
        """
        def f(x):
            with torch.no_grad():
                raise ValueError('v')
        """,
    ),
    _escapes(
        "exception through a user context",
        """
        class C:
            def __init__(self, log): self.log = log
            def __enter__(self): self.log.append('in')
            def __exit__(self, *a): self.log.append('out')
        def f(x, log):
            with C(log):
                raise ValueError('v')
        """,
        ["t(3), []"] * 2,
    ),
    _escapes("StopIteration of next", "def f(x): return next(iter([]))"),
    _escapes(
        "exception in a generator",
        """
        def g():
            yield 1
            raise ValueError('gen')
        def f(x): return [x + n for n in g()]
        """,
    ),
    _escapes(
        "exception after a graph break",
        """
        def f(x):
            y = x.sin()
            print('here')
            raise ValueError(str(y.shape))
        """,
    ),
    _escapes(
        "exception before and recovery after",
        """
        def f(x, n):
            y = x + 1
            if n: raise ValueError(n)
            return y
        """,
        ["t(3), 1", "t(3), 0", "t(3), 1"],
    ),
    _escapes(
        "SystemExit is an exception like others",
        """
        def f(x):
            try:
                raise SystemExit(3)
            except SystemExit as e:
                return x + e.code
        """,
    ),
    _escapes(
        "not iterable",
        """
        def f(x, n):
            for i in n: x = x + i
            return x
        """,
        ["t(3), 5"] * 2,
    ),
    _escapes("not callable", "def f(x, n): return n(x)", ["t(3), 5"] * 2),
    _escapes(
        "wrong unpacking",
        """
        def f(x, p):
            a, b = p
            return x + a
        """,
        ["t(3), (1, 2, 3)", "t(3), (1,)"],
    ),
    _escapes(
        "recursion without end",
        """
        def g(n): return g(n + 1)
        def f(x):
            try:
                g(0)
            except RecursionError:
                return x + 1
        """,
    ),
]


@pytest.mark.parametrize("case", ESCAPING, ids=lambda case: case.name)
def test_exceptions_that_escape(case: Case) -> None:
    case.check()
