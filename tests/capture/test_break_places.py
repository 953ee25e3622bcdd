"""Graph breaks in every kind of place; what was done before them is not done again."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

BOTH = ["t(3).abs()", "-t(3).abs()"]

PLACES = [
    Case(
        "in a callee",
        """
        def g(x):
            y = x.sin()
            print('in g')
            return y + 1
        def f(x):
            return g(x) * 2
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["sin", "add", "mul"],
        breaks=["*:3"],
    ),
    Case(
        "branch in a callee",
        """
        def g(x):
            if x.sum() > 0:
                return x + 1
            return x - 1
        def f(x):
            y = x * 2
            return g(y) * 3
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "in a callee of a callee",
        """
        def h(x):
            print('h')
            return x + 1
        def g(x):
            return h(x.sin()) * 2
        def f(x):
            return g(x) - 3
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "in a method",
        """
        class A:
            def g(self, x):
                self.n = x.sum().item()
                return x * self.n
        a = A()
        def f(x):
            return a.g(x) + 1
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "in a module's forward",
        """
        class M(nn.Module):
            def forward(self, x):
                print('forward')
                return x + 1
        m = M()
        def f(x):
            return m(x.sin()) * 2
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "in a child of Sequential",
        """
        class P(nn.Module):
            def forward(self, x):
                print('p')
                return x * 2
        torch.manual_seed(0)
        f = nn.Sequential(nn.ReLU(), P(), nn.Sigmoid())
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "in an argument of a call",
        """
        def f(x):
            return torch.add(x.sin(), x[0].item()) + 1
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["sin getitem", "add add"],
        breaks=["*:2"],
    ),
    Case(
        "with values on the stack",
        """
        def f(x):
            return [x.sin(), x.cos(), int(x[0]), x + 1]
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "inside with",
        """
        def f(x):
            with torch.no_grad():
                y = x * 2
                print('in')
                y = y + 1
            return y, torch.is_grad_enabled()
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "inside with, branch",
        """
        def f(x):
            with torch.no_grad():
                if x.sum() > 0:
                    return x + 1
                x = x - 1
            return x
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:3"],
    ),
    Case(
        "inside a user context",
        """
        class C:
            def __init__(self, log): self.log = log
            def __enter__(self):
                self.log.append('in')
                return 2
            def __exit__(self, *a): self.log.append('out')
        def f(x, log):
            with C(log) as k:
                x = x * k
                print(len(log))
                x = x + 1
            return x
        """,
        inputs=["t(3), []"] * 2,
        graphs=None,
        breaks=["*:10"],
    ),
    Case(
        "inside two contexts",
        """
        def f(x):
            with torch.no_grad():
                with torch.enable_grad():
                    y = x * 2
                    print('in')
                    z = y + 1
                w = x * 3
            return z, w
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "inside autocast",
        """
        def f(x):
            with torch.autocast('cpu', dtype=torch.bfloat16):
                y = x @ x
                print('in')
                return y @ y
        """,
        inputs=["t(3, 3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "inside try",
        """
        def f(x):
            try:
                y = x.sin()
                print('in')
                return y + 1
            except ValueError:
                return x
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "add"],
        breaks=["*:4"],
    ),
    Case(
        "inside try that fails after",
        """
        def f(x):
            try:
                y = x.sin()
                print('in')
                raise ValueError
            except ValueError:
                return x + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "inside except",
        """
        def f(x):
            try:
                {}['k']
            except KeyError as e:
                print('handling', e)
                y = x + 1
            return y * 2
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "inside finally",
        """
        def f(x):
            try:
                y = x + 1
            finally:
                print('finally')
                y = y * 2
            return y
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "breaking call raises into except",
        """
        def f(x):
            y = x.sin()
            try:
                n = int('no' if len(str(x.sum().item())) else 1)
            except ValueError:
                y = y + 1
            return y
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "inside a for loop",
        """
        def f(x, xs):
            for y in xs:
                x = x + y
                if x.sum() > 100:
                    break
            return x * 2
        """,
        inputs=["t(3), [t(3), t(3), t(3)]"] * 2,
        graphs=None,
        breaks=["DD001:4"],
    ),
    Case(
        "inside nested loops",
        """
        def f(x):
            for i in range(2):
                for j in range(2):
                    x = x + i * j
                    print(i, j)
            return x
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "inside a while loop",
        """
        def f(x):
            n = 0
            while n < 3:
                x = x * 2
                print(n)
                n += 1
            return x
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "inside zip and enumerate",
        """
        def f(x):
            for i, (a, b) in enumerate(zip([1, 2], [3, 4])):
                x = x * a + b
                print(i)
            return x
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "inside a comprehension",
        """
        def f(x):
            y = x + 1
            ns = [x[i].item() for i in range(2)]
            return y, ns
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "inside a closure",
        """
        def f(x):
            k = 2
            def g(y):
                print('g')
                return y * k + x
            return g(x.sin()) + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "closure cell changed around",
        """
        def f(x):
            n = 1
            def g():
                nonlocal n
                n += 1
            g()
            print(n)
            g()
            return x + n
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:7"],
    ),
    Case(
        "generator alive over a break",
        """
        def g(x):
            for i in range(3): yield x + i
        def f(x):
            out = []
            for y in g(x):
                out.append(y)
                print(len(out))
            return out
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:7"],
    ),
    Case(
        "break inside a generator",
        """
        def g(x):
            yield x + 1
            print('g')
            yield x + 2
        def f(x):
            return list(g(x))
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "lambda argument breaks",
        """
        def apply(fn, x): return fn(x) + 1
        def f(x):
            return apply(lambda v: v * v.sum().item(), x)
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "in a property",
        """
        class A:
            @property
            def p(self):
                print('p')
                return 3
        a = A()
        def f(x):
            y = x.sin()
            return y * a.p
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "in a constructor",
        """
        class A:
            def __init__(self, x):
                self.x = x.sin()
                print('made')
                self.y = self.x + 1
        def f(x):
            return A(x).y * 2
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "in recursion",
        """
        def g(x, n):
            if n == 0:
                print('bottom')
                return x
            return g(x + n, n - 1) * 2
        def f(x):
            return g(x, 2)
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "many locals",
        """
        def f(x):
            a, b, c, d = x + 1, 2, [x], {'k': x}
            print('x')
            return a * b + c[0] + d['k']
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "keyword arguments survive",
        """
        def f(x, *args, k=2, **kw):
            y = x * k
            print(len(args))
            return y + sum(args) + kw['z']
        """,
        inputs=["t(3), 1, 2, k=3, z=4"] * 2,
        graphs=["mul", "add add"],
        breaks=["*:3"],
    ),
    Case(
        "deleted local",
        """
        def f(x):
            y = x + 1
            del x
            print('gone')
            return y * 2
        """,
        inputs=["t(3)"] * 2,
        graphs=["add", "mul"],
        breaks=["*:4"],
    ),
    Case(
        "maybe unbound local",
        """
        def f(x, flag):
            if flag:
                y = x + 1
            print('mid')
            return y * 2 if flag else x
        """,
        inputs=["t(3), True", "t(3), False"],
        graphs=None,
        breaks=["*:4"],
    ),
]

ONCE = [
    Case(
        "mutation before a break",
        """
        def f(x, log):
            log.append(1)
            print(len(log))
            log.append(2)
            return x + len(log)
        """,
        inputs=["t(3), []"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "in-place before a break",
        """
        def f(x):
            x.add_(1)
            print('mid')
            x.mul_(2)
            return x
        """,
        inputs=["t(3)"] * 2,
        graphs=["add_", "mul_"],
        breaks=["*:3"],
    ),
    Case(
        "in-place before a branch",
        """
        def f(x):
            x.add_(1)
            if x.sum() > 0:
                x.mul_(2)
            return x
        """,
        inputs=["t(3).abs()", "-t(3).abs() - 5"],
        graphs=None,
        breaks=["DD001:3"],
    ),
    Case(
        "counter in a callee that breaks",
        """
        COUNT = 0
        def g(x):
            global COUNT
            COUNT += 1
            print('g', COUNT)
            return x + COUNT
        def f(x):
            return g(x.sin()) * 2
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "attribute before a break in a callee",
        """
        class A:
            def __init__(self): self.n = 0
            def step(self, x):
                self.n += 1
                if x.sum() > 0:
                    self.n += 10
                return x + self.n
        def f(x, a):
            a.step(x)
            return a.step(x * 2)
        """,
        inputs=["t(3).abs(), A()", "-t(3).abs(), A()"],
        graphs=None,
        breaks=["DD001:5"],
    ),
    Case(
        "random numbers around a break",
        """
        def f(x):
            y = x + torch.rand(3)
            print('mid')
            return y + torch.rand(3)
        """,
        inputs=["t(3)"] * 2,
        graphs=["rand add"],
        breaks=["*:3"],
    ),
    Case(
        "iterator consumed once",
        """
        def f(x, it):
            a = next(it)
            print('mid')
            return x * a + next(it)
        """,
        inputs=["t(3), iter([1, 2, 3])"] * 2,
        graphs=None,
        breaks=["*:2", "*:3", "*:4"],
    ),
    Case(
        "list identity over a break",
        """
        def f(x):
            a = [x]
            b = a
            print('mid')
            a.append(x + 1)
            return len(b), a is b
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "object identity over a break",
        """
        class A: pass
        def f(x):
            a = A()
            a.me = a
            print('mid')
            a.x = x + 1
            return a.me.x, a.me is a
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:5"],
    ),
    Case(
        "tensor aliasing over a break",
        """
        def f(x):
            y = x.view(-1)
            print('mid')
            y[0] = 5
            return x
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "gradient across a break",
        """
        def f(x):
            y = x * 2
            print('mid')
            return (y * y).sum()
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=["mul", "mul sum"],
        breaks=["*:3"],
    ),
    Case(
        "grad mode left over a break",
        """
        def f(x):
            torch.set_grad_enabled(False)
            print('mid')
            y = x * 2
            torch.set_grad_enabled(True)
            return y
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
]


@pytest.mark.parametrize("case", PLACES, ids=lambda case: case.name)
def test_breaks_in_places(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", ONCE, ids=lambda case: case.name)
def test_nothing_happens_twice(case: Case) -> None:
    case.check()
