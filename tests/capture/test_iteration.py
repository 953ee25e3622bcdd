"""Loops, comprehensions, generators, iterators, `itertools`, and builtins that consume iterables."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

LIST = ["t(3), [t(3), t(3)]", "t(3), [t(3), t(3)]"]

LOOPS = [
    Case(
        "for over range",
        """
        def f(x):
            for i in range(3):
                x = x + i
            return x
        """,
        graphs=["add add add"],
    ),
    Case(
        "for over a list",
        """
        def f(x, xs):
            for y in xs:
                x = x * y
            return x
        """,
        inputs=LIST,
        graphs=["mul mul"],
    ),
    Case(
        "for over a longer list",
        """
        def f(x, xs):
            for y in xs:
                x = x * y
            return x
        """,
        inputs=["t(3), [t(3)]", "t(3), [t(3), t(3)]"],
        graphs=["mul", "mul mul"],
        compiles=2,
    ),
    Case(
        "for with break",
        """
        def f(x):
            for i in range(10):
                if i == 2:
                    break
                x = x + i
            return x
        """,
        graphs=["add add"],
    ),
    Case(
        "for with continue",
        """
        def f(x):
            for i in range(4):
                if i % 2:
                    continue
                x = x + i
            return x
        """,
        graphs=["add add"],
    ),
    Case(
        "for else",
        """
        def f(x, n):
            for i in range(3):
                if i == n:
                    break
            else:
                x = x.sin()
            return x + i
        """,
        inputs=["t(3), 1", "t(3), 9"],
        graphs=["add", "sin add"],
        compiles=2,
    ),
    Case(
        "while",
        """
        def f(x, n):
            while n > 0:
                x = x * 2
                n -= 1
            return x
        """,
        inputs=["t(3), 3", "t(3), 3"],
        graphs=["mul mul mul"],
    ),
    Case(
        "while with break and else",
        """
        def f(x):
            n = 0
            while n < 5:
                n += 1
                if n == 3: break
            else:
                x = -x
            return x + n
        """,
        graphs=["add"],
    ),
    Case(
        "nested loops",
        """
        def f(x):
            for i in range(2):
                for j in range(2):
                    x = x + i * j
            return x
        """,
        graphs=["add add add add"],
    ),
    Case(
        "loop over a tensor",
        """
        def f(x):
            out = 0
            for row in x:
                out = out + row * 2
            return out
        """,
        inputs=["t(3, 2)", "t(3, 2)"],
        graphs=1,
    ),
    Case(
        "loop over tensor unbind",
        """
        def f(x):
            a, b = x
            return a - b
        """,
        inputs=["t(2, 3)", "t(2, 3)"],
        graphs=1,
    ),
    Case("loop over split", "def f(x): return sum(p.sum() for p in x.split(2))", ["t(6)", "t(6)"], 1),
    Case("loop over chunk with index", "def f(x): return [p * i for i, p in enumerate(x.chunk(2))]", ["t(6)", "t(6)"], 1),
    Case(
        "early return from a loop",
        """
        def f(x):
            for i in range(5):
                x = x + 1
                if i == 1: return x
            return -x
        """,
        graphs=["add add"],
    ),
    Case(
        "loop variable survives",
        """
        def f(x):
            for i in (1, 2, 3): pass
            return x * i
        """,
        graphs=["mul"],
    ),
    Case(
        "list changed while looping",
        """
        def f(x):
            xs = [1, 2]
            for n in xs:
                x = x + n
                if len(xs) < 4: xs.append(n * 10)
            return x
        """,
        graphs=["add add add add"],
    ),
]

COMPREHENSIONS = [
    Case("list comprehension", "def f(x): return [x * i for i in range(3)]", graphs=["mul mul mul"]),
    Case("comprehension with condition", "def f(x): return [x + i for i in range(6) if i % 2 == 0]", graphs=["add add add"]),
    Case(
        "nested comprehension",
        "def f(x): return [x * i + j for i in range(2) for j in range(2)]",
        graphs=["mul add mul add mul add mul add"],
    ),
    Case(
        "comprehension of comprehensions",
        "def f(x): return [[x + i * j for j in range(2)] for i in range(2)]",
        graphs=["add add add add"],
    ),
    Case("comprehension sees a closure", "def f(x, k): return sum([x * k for _ in range(2)])", ["t(3), 2", "t(3), 2"], ["mul mul add add"]),
    Case(
        "comprehension in a comprehension's condition",
        "def f(x): return [x + n for n in range(5) if n in [m * m for m in range(3)]]",
        graphs=["add add add"],
    ),
    Case("generator expression to sum", "def f(x): return sum(x * i for i in range(3))", graphs=["mul add mul add mul add"]),
    Case("generator expression to join", "def f(x): return ','.join(str(n) for n in x.shape), x + 1", ["t(2, 3)", "t(2, 3)"], ["add"]),
    Case("walrus in a comprehension", "def f(x): return [y for n in range(3) if (y := n * 2) > 1], x + 1", graphs=["add"]),
]

GENERATORS = [
    Case(
        "generator function",
        """
        def g(x):
            yield x + 1
            yield x + 2
        def f(x): return [y * 2 for y in g(x)]
        """,
        graphs=["add mul add mul"],
    ),
    Case(
        "generator as local list",
        """
        def g(x, n):
            for i in range(n): yield x * i
        def f(x): return list(g(x, 3))
        """,
        graphs=["mul mul mul"],
    ),
    Case(
        "yield from",
        """
        def g(x):
            yield x + 1
            yield from (x * 2, x * 3)
        def f(x): return sum(g(x))
        """,
        graphs=["add add mul mul add add"],
    ),
    Case(
        "generator return value",
        """
        def g(x):
            yield x + 1
            return 5
        def h(x):
            n = yield from g(x)
            yield x * n
        def f(x): return list(h(x))
        """,
        graphs=["add mul"],
    ),
    Case(
        "next on a generator",
        """
        def g(x):
            yield x + 1
            yield x + 2
        def f(x):
            it = g(x)
            a = next(it)
            return a * next(it)
        """,
        graphs=["add add mul"],
    ),
    Case(
        "next with default",
        """
        def f(x):
            it = iter([x])
            next(it)
            return next(it, 4), x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "generator send",
        """
        def g(x):
            k = yield x
            yield x * k
        def f(x):
            it = g(x)
            next(it)
            return it.send(3)
        """,
        graphs=["mul"],
    ),
    Case(
        "generator close",
        """
        def g(x, log):
            try:
                yield x + 1
            finally:
                log.append('closed')
        def f(x, log):
            it = g(x, log)
            y = next(it)
            it.close()
            return y
        """,
        inputs=["t(3), []", "t(3), []"],
        graphs=["add"],
    ),
    Case(
        "generator abandoned",
        """
        def g(x):
            while True:
                x = x + 1
                yield x
        def f(x):
            for y in g(x):
                if True: return y * 2
        """,
        graphs=["add mul"],
    ),
    Case(
        "infinite generator and islice",
        """
        import itertools
        def g():
            n = 0
            while True:
                yield n
                n += 1
        def f(x): return [x + n for n in itertools.islice(g(), 3)]
        """,
        graphs=["add add add"],
    ),
    Case(
        "generator with closure",
        """
        def f(x):
            k = 2
            def g():
                for i in range(2): yield x * k + i
            return list(g())
        """,
        graphs=["mul add mul add"],
    ),
    Case(
        "generator method",
        """
        class A:
            def items(self, x):
                yield x
                yield x + 1
        def f(x): return [y for y in A().items(x)]
        """,
        graphs=["add"],
    ),
    Case(
        "generator throw",
        """
        def g(x):
            try:
                yield x
            except ValueError:
                yield x + 1
        def f(x):
            it = g(x)
            next(it)
            return it.throw(ValueError())
        """,
        graphs=["add"],
    ),
]

BUILTINS = [
    Case("zip", "def f(x, xs): return [a * b for a, b in zip(xs, [2, 3])]", LIST, ["mul mul"]),
    Case("zip of unequal lengths", "def f(x, xs): return list(zip(xs, range(5), 'ab'))", LIST, []),
    Case(
        "zip strict fails",
        """
        def f(x, xs):
            try:
                return list(zip(xs, [1], strict=True))
            except ValueError:
                return x + 1
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case("enumerate", "def f(x, xs): return sum(y * i for i, y in enumerate(xs))", LIST, ["mul add mul add"]),
    Case("enumerate with start", "def f(x, xs): return [i for i, _ in enumerate(xs, 5)], x + 1", LIST, ["add"]),
    Case("map", "def f(x, xs): return list(map(torch.sin, xs))", LIST, ["sin sin"]),
    Case("map of a lambda with two iterables", "def f(x, xs): return list(map(lambda a, b: a * b, xs, [2, 3]))", LIST, ["mul mul"]),
    Case("filter", "def f(x): return [x + n for n in filter(lambda n: n > 1, range(4))]", graphs=["add add"]),
    Case("filter None", "def f(x): return [x + n for n in filter(None, [0, 1, None, 2])]", graphs=["add add"]),
    Case("sorted", "def f(x, ns): return [x * n for n in sorted(ns)]", ["t(3), [3, 1]", "t(3), [3, 1]"], ["mul mul"]),
    Case(
        "sorted with key and reverse",
        "def f(x, d): return [k for k, v in sorted(d.items(), key=lambda kv: kv[1], reverse=True)], x + 1",
        inputs=["t(3), {'a': 1, 'b': 2}", "t(3), {'a': 1, 'b': 2}"],
        graphs=["add"],
    ),
    Case("sorted is stable", "def f(x): return sorted(['bb', 'a', 'cc', 'd'], key=len), x + 1", graphs=["add"]),
    Case(
        "reversed",
        """
        def f(x, xs):
            for y in reversed(xs):
                x = x - y
            return x
        """,
        inputs=LIST,
        graphs=["sub sub"],
    ),
    Case("reversed range", "def f(x): return [x + i for i in reversed(range(2))]", graphs=["add add"]),
    Case("sum of tensors", "def f(x, xs): return sum(xs)", LIST, ["add add"]),
    Case("sum with start", "def f(x, xs): return sum(xs, x)", LIST, ["add add"]),
    Case("sum of numbers", "def f(x, ns): return x * sum(ns)", ["t(3), [1, 2.5]", "t(3), [1, 2.5]"], ["mul"]),
    Case(
        "min and max",
        "def f(x, ns): return x * max(ns) + min(ns) + max(1, 2, 0) + min([3], default=1)",
        inputs=["t(3), [1, 2]", "t(3), [1, 2]"],
        graphs=["mul add add add"],
    ),
    Case("max with key and default", "def f(x): return x + max(['a', 'bcd'], key=len).count('b') + max([], default=3)", graphs=["add add"]),
    Case(
        "any and all",
        "def f(x, ns): return x + 1 if all(n > 0 for n in ns) and any(n > 1 for n in ns) else x",
        inputs=["t(3), [1, 2]", "t(3), [1, 2]"],
        graphs=["add"],
    ),
    Case(
        "iter and next",
        """
        def f(x, xs):
            it = iter(xs)
            return next(it) - next(it)
        """,
        inputs=LIST,
        graphs=["sub"],
    ),
    Case(
        "iter with sentinel",
        """
        def f(x):
            ns = [1, 2, 0, 3]
            return x * sum(iter(lambda: ns.pop(0), 0)), ns
        """,
        graphs=["mul"],
        compiles=None,
        fullgraph=False,
    ),
    Case(
        "unpacking an iterator",
        """
        def f(x):
            a, b = map(lambda n: n * 2, (1, 2))
            return x * a + b
        """,
        graphs=["mul add"],
    ),
    Case("zip of zip", "def f(x, xs): return [list(c) for c in zip(*[(1, 2), (3, 4)])], x + 1", LIST, ["add"]),
    Case(
        "iterator argument is consumed",
        "def f(x, it): return x + next(it)",
        inputs=["t(3), iter([1, 2])", "t(3), iter([1, 2])"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "user iterator class",
        """
        class Count:
            def __init__(self, n): self.n = n
            def __iter__(self): return self
            def __next__(self):
                if self.n == 0: raise StopIteration
                self.n -= 1
                return self.n
        def f(x): return [x + i for i in Count(3)]
        """,
        graphs=["add add add"],
    ),
    Case(
        "user sequence by __getitem__",
        """
        class Seq:
            def __getitem__(self, i):
                if i > 1: raise IndexError
                return i * 10
        def f(x): return [x + n for n in Seq()]
        """,
        graphs=["add add"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "user class with __len__ and __contains__",
        """
        class Box:
            def __len__(self): return 3
            def __contains__(self, k): return k == 'in'
        def f(x):
            b = Box()
            return x * len(b) if 'in' in b else x
        """,
        graphs=["mul"],
    ),
]

ITERTOOLS = [
    Case(name, f"import itertools\ndef f(x): return [{body}]", graphs=[graph])
    for name, body, graph in [
        ("chain", "x + n for n in itertools.chain([1], (2, 3))", "add add add"),
        ("chain.from_iterable", "x + n for n in itertools.chain.from_iterable([[1], [2]])", "add add"),
        ("product", "x * a + b for a, b in itertools.product([1, 2], [3])", "mul add mul add"),
        ("combinations", "x + a * b for a, b in itertools.combinations([1, 2, 3], 2)", "add add add"),
        ("permutations", "x + a - b for a, b in itertools.permutations([1, 2])", "add sub add sub"),
        ("count with zip", "x + n for n, _ in zip(itertools.count(5, 2), 'ab')", "add add"),
        ("repeat", "x + n for n in itertools.repeat(4, 2)", "add add"),
        ("islice", "x + n for n in itertools.islice(range(10), 2, 8, 3)", "add add"),
        ("cycle with zip", "x + n for n, _ in zip(itertools.cycle([1, 2]), range(3))", "add add add"),
        ("accumulate", "x + n for n in itertools.accumulate([1, 2, 3])", "add add add"),
        ("accumulate with function", "x + n for n in itertools.accumulate([1, 2, 3], lambda a, b: a * b)", "add add add"),
        ("takewhile", "x + n for n in itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])", "add add"),
        ("dropwhile", "x + n for n in itertools.dropwhile(lambda n: n < 3, [1, 2, 3, 1])", "add add"),
        ("filterfalse", "x + n for n in itertools.filterfalse(lambda n: n % 2, [1, 2, 3])", "add"),
        ("zip_longest", "x + a + b for a, b in itertools.zip_longest([1, 2], [3], fillvalue=0)", "add add add add"),
        ("starmap", "x + n for n in itertools.starmap(pow, [(2, 3), (3, 2)])", "add add"),
        ("pairwise", "x + b - a for a, b in itertools.pairwise([1, 4, 9])", "add sub add sub"),
        ("compress", "x + n for n in itertools.compress([1, 2, 3], [1, 0, 1])", "add add"),
        ("groupby", "x + len(list(g)) for _, g in itertools.groupby([1, 1, 2])", "add add"),
    ]
]


@pytest.mark.parametrize("case", LOOPS + COMPREHENSIONS, ids=lambda case: case.name)
def test_loops(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", GENERATORS, ids=lambda case: case.name)
def test_generators(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", BUILTINS + ITERTOOLS, ids=lambda case: case.name)
def test_iterables(case: Case) -> None:
    case.check()
