"""Mutations made by traced code are replayed after the graph, in order, once, on the objects the caller holds."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

BOX = "class Box:\n    def __init__(self, **kw): self.__dict__.update(kw)\n"
LOG = ["t(3), []"] * 2
BOXED = ["t(3), Box(n=1)"] * 2

CASES = [
    Case(
        "order of appends",
        """
        def f(x, log):
            log.append(1)
            log.append(x + 1)
            log.insert(0, 'first')
            log.append(x * 2)
        """,
        inputs=LOG,
        graphs=["add mul"],
    ),
    Case(
        "append then pop leaves nothing",
        """
        def f(x, log):
            log.append(x)
            log.pop()
            return x + 1
        """,
        inputs=LOG,
        graphs=["add"],
    ),
    Case(
        "two lists",
        """
        def f(x, a, b):
            a.append(x + 1)
            b.append(a[0])
            a.append(b)
        """,
        inputs=["t(3), [], []"] * 2,
        graphs=["add"],
    ),
    Case(
        "list into itself",
        """
        def f(x, log):
            log.append(log)
            return x + len(log)
        """,
        inputs=LOG,
        graphs=["add"],
    ),
    Case(
        "list kept by a dict",
        """
        def f(x, d):
            d['xs'] = []
            d['xs'].append(x + 1)
        """,
        inputs=["t(3), {}"] * 2,
        graphs=["add"],
    ),
    Case(
        "new list shared by two places",
        """
        def f(x, a, b):
            new = [x + 1]
            a.append(new)
            b.append(new)
            new.append(2)
        """,
        inputs=["t(3), [], []"] * 2,
        graphs=["add"],
    ),
    Case(
        "returned and stored",
        """
        def f(x, log):
            y = x + 1
            log.append(y)
            return y
        """,
        inputs=LOG,
        graphs=["add"],
    ),
    Case(
        "list emptied and refilled",
        """
        def f(x, ns):
            ns.clear()
            ns.extend([x + 1, 7])
        """,
        inputs=["t(3), [1, 2]"] * 2,
        graphs=["add"],
    ),
    Case(
        "slice replaced",
        """
        def f(x, ns):
            ns[1:3] = [x + 1]
        """,
        inputs=["t(3), [1, 2, 3, 4]"] * 2,
        graphs=["add"],
    ),
    Case(
        "sorted in place, then extended",
        """
        def f(x, ns):
            ns.sort(reverse=True)
            ns += [x + 1]
        """,
        inputs=["t(3), [1, 3, 2]"] * 2,
        graphs=["add"],
    ),
    Case(
        "swap",
        """
        def f(x, ns):
            ns[0], ns[1] = ns[1], ns[0]
            return x + ns[0]
        """,
        inputs=["t(3), [1, 2]"] * 2,
        graphs=["add"],
    ),
    Case(
        "nested list element",
        """
        def f(x, ns):
            inner = ns[0]
            ns[0] = 5
            inner.append(x + 1)
            ns.append(inner)
        """,
        inputs=["t(3), [[]]"] * 2,
        graphs=["add"],
    ),
    Case(
        "dict order after changes",
        """
        def f(x, d):
            del d['a']
            d['c'] = x + 1
            d['a'] = 2
        """,
        inputs=["t(3), {'a': 1, 'b': 2}"] * 2,
        graphs=["add"],
    ),
    Case(
        "dict changed while read",
        """
        def f(x, d):
            for k in list(d):
                d[k + k] = d.pop(k)
            return x + len(d)
        """,
        inputs=["t(3), {'a': 1, 'b': 2}"] * 2,
        graphs=["add"],
    ),
    Case(
        "dict overwritten twice",
        """
        def f(x, d):
            d['a'] = x + 1
            d['a'] = x * 2
        """,
        inputs=["t(3), {'a': 0}"] * 2,
        graphs=None,
    ),
    Case(
        "set changes",
        """
        def f(x, s):
            s.add(3)
            s.discard(1)
            s |= {9}
            return x + len(s)
        """,
        inputs=["t(3), {1, 2}"] * 2,
        graphs=["add"],
    ),
    Case(
        "attribute set",
        "def f(x, b): b.y = x + 1",
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "attribute changed twice",
        """
        def f(x, b):
            b.n += 1
            b.n *= 5
            return x + b.n
        """,
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "attribute deleted and set",
        """
        def f(x, b):
            del b.n
            b.n = x + 1
        """,
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "attribute order",
        """
        def f(x, b):
            b.z = 1
            b.a = 2
            return x + len(b.__dict__)
        """,
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "attribute of an attribute",
        """
        def f(x, b):
            b.inner.n = x + b.inner.n
        """,
        inputs=["t(3), Box(inner=Box(n=2))"] * 2,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "attribute list appended",
        """
        def f(x, b):
            b.log.append(x + 1)
            b.log = b.log + [2]
        """,
        inputs=["t(3), Box(log=[])"] * 2,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "object into its own attribute",
        """
        def f(x, b):
            b.me = b
            b.me.n = 3
            return x + b.n
        """,
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "new object linked to an argument",
        """
        def f(x, b):
            c = Box(parent=b, y=x + 1)
            b.child = c
            return c
        """,
        inputs=BOXED,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "cycle of new objects",
        """
        def f(x):
            a, b = Box(), Box()
            a.other, b.other = b, a
            a.y = x + 1
            return b
        """,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "linked list built",
        """
        def f(x):
            head = None
            for i in range(3): head = Box(v=x + i, next=head)
            return head
        """,
        graphs=["add add add"],
        prelude=BOX,
    ),
    Case(
        "class attribute changed",
        """
        def f(x, k):
            Box.total = getattr(Box, 'total', 0) + k
            return x + Box.total
        """,
        inputs=["t(3), 1"] * 2,
        graphs=["add"],
        compiles=None,
        prelude=BOX,
    ),
    Case(
        "__setattr__ runs once",
        """
        class A:
            def __init__(self): object.__setattr__(self, 'log', [])
            def __setattr__(self, k, v):
                self.log.append(k)
                object.__setattr__(self, k, v)
        def f(x, a): a.y = x + 1
        """,
        inputs=["t(3), A()"] * 2,
        graphs=["add"],
    ),
    Case(
        "property setter runs once",
        """
        class A:
            n = 0
            @property
            def y(self): return self._y
            @y.setter
            def y(self, v):
                self.n += 1
                self._y = v
        def f(x, a): a.y = x + 1
        """,
        inputs=["t(3), A()"] * 2,
        graphs=["add"],
    ),
    Case(
        "global changed",
        """
        STEP = 0
        def f(x):
            global STEP
            STEP += 2
            return x + 1
        """,
        graphs=["add"],
        compiles=None,
    ),
    Case(
        "global tensor replaced",
        """
        W = torch.zeros(3)
        def f(x):
            global W
            W = W + x
            return W * 2
        """,
        graphs=["add mul"],
        compiles=None,
    ),
    Case(
        "global deleted",
        """
        T = 1
        def f(x, _):
            global T
            T = 5
            y = x + T
            del T
            return y
        """,
        inputs=["t(3), None"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "global dict of lists",
        """
        D = {'a': []}
        def f(x): D['a'].append(len(D['a']) * 2)
        """,
        graphs=None,
        compiles=None,
    ),
    Case(
        "closure variable changed",
        """
        def make():
            n, log = 0, []
            def f(x):
                nonlocal n
                n += 1
                log.append(n)
                return x + n, list(log)
            return f
        f = make()
        """,
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "closure variable shared by two functions",
        """
        def make():
            n = 0
            def bump():
                nonlocal n
                n += 3
            def f(x):
                bump()
                return x + n
            return f
        f = make()
        """,
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "closure returned after a change",
        """
        def f(x):
            n = 1
            def g():
                nonlocal n
                n += 1
                return n
            g()
            return g() + 0, x + n
        """,
        graphs=["add"],
    ),
    Case(
        "function that mutates its default",
        """
        def g(k, seen={}):
            seen[k] = len(seen)
            return seen[k]
        def f(x, k): return x + g(k)
        """,
        inputs=["t(3), 'a'", "t(3), 'b'"],
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "memo in a global dict",
        """
        MEMO = {}
        def g(n):
            if n not in MEMO: MEMO[n] = n * n
            return MEMO[n]
        def f(x): return x + g(3) + g(3)
        """,
        graphs=["add add"],
        compiles=2,
    ),
    Case(
        "in-place on a global tensor",
        """
        W = torch.zeros(3)
        def f(x):
            W.add_(x)
            return W * 2
        """,
        graphs=["add_ mul"],
    ),
    Case(
        "in-place visible through another name",
        """
        def f(x, xs):
            x.add_(1)
            return xs[0] * 2
        """,
        inputs=["*(lambda v: (v, [v]))(t(3))"] * 2,
        graphs=["add_ mul"],
    ),
    Case(
        "in-place on a view held by the caller",
        """
        def f(v):
            v.mul_(2)
            return v + 1
        """,
        inputs=["t(6)[1:4]"] * 2,
        graphs=["mul_ add"],
    ),
    Case(
        "tensor stored, then changed in place",
        """
        def f(x, log):
            y = x + 1
            log.append(y)
            y.mul_(2)
        """,
        inputs=LOG,
        graphs=["add mul_"],
    ),
    Case(
        "old and new tensor attribute",
        """
        def f(x, b):
            old = b.n
            b.n = x + old
            return old, b.n
        """,
        inputs=["t(3), Box(n=t(3))"] * 2,
        graphs=["add"],
        prelude=BOX,
    ),
    Case(
        "gradient through a stored tensor",
        """
        def f(x, b):
            b.h = x * 2
            return b.h.sum()
        """,
        inputs=["t(3, grad=True), Box()"] * 2,
        graphs=["mul sum"],
        prelude=BOX,
    ),
    Case(
        "module cache",
        """
        class M(nn.Module):
            def __init__(self):
                super().__init__()
                self.cache = None
            def forward(self, x):
                if self.cache is None: self.cache = x.new_ones(3)
                return x * self.cache
        f = M()
        """,
        graphs=None,
        compiles=2,
    ),
    Case(
        "key-value cache grows",
        """
        def f(x, cache):
            cache.append(x)
            return torch.cat(cache)
        """,
        inputs=["t(2), [t(2)]", "t(2), [t(2), t(2)]"],
        graphs=["cat"],
        compiles=2,
    ),
    Case(
        "argument rebound has no effect outside",
        """
        def f(x, ns):
            ns = ns + [1]
            return x + len(ns)
        """,
        inputs=["t(3), [5]"] * 2,
        graphs=["add"],
    ),
    Case(
        "deque rotated",
        """
        from collections import deque
        def f(x, d):
            d.rotate(1)
            d.appendleft(x + 1)
        """,
        inputs=["t(3), deque([1, 2], maxlen=3)"] * 2,
        graphs=["add"],
    ),
    Case(
        "OrderedDict moved",
        """
        from collections import OrderedDict
        def f(x, d):
            d.move_to_end('a')
            d['n'] = x + 1
        """,
        inputs=["t(3), OrderedDict(a=1, b=2)"] * 2,
        graphs=["add"],
    ),
    Case(
        "defaultdict filled",
        """
        from collections import defaultdict
        def f(x, d):
            d['k'].append(x + 1)
            d['k'].append(1)
        """,
        inputs=["t(3), defaultdict(list)"] * 2,
        graphs=["add"],
    ),
    Case(
        "dict subclass filled",
        """
        class D(dict):
            pass
        def f(x, d):
            d['k'] = x + 1
            d.seen = True
        """,
        inputs=["t(3), D(a=1)"] * 2,
        graphs=["add"],
    ),
    Case(
        "list subclass filled",
        """
        class L(list):
            pass
        def f(x, l):
            l.append(x + 1)
            l.seen = True
        """,
        inputs=["t(3), L([1])"] * 2,
        graphs=["add"],
    ),
    Case(
        "iterator argument advanced",
        """
        def f(x, b):
            b.it = iter(b.ns)
            return x + next(b.it)
        """,
        inputs=["t(3), Box(ns=[1, 2])"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
        prelude=BOX,
    ),
    Case(
        "function object attribute",
        """
        def g(): pass
        g.calls = 0
        def f(x):
            g.calls += 1
            return x + 1
        """,
        compiles=None,
        fullgraph=False,
    ),
    Case(
        "effects of a callee",
        """
        def g(b, v):
            b.n = v
            b.log.append(v)
        def f(x, b):
            g(b, 1)
            g(b, 2)
            return x + b.n
        """,
        inputs=["t(3), Box(log=[])"] * 2,
        graphs=["add"],
        prelude=BOX,
    ),
    Case("effects inside a comprehension", "def f(x, log): return [log.append(i) for i in range(2)], x + 1", LOG, ["add"]),
    Case(
        "effects before raise",
        """
        def f(x, log):
            log.append(x + 1)
            raise ValueError(len(log))
        """,
        inputs=LOG,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "effects around no_grad",
        """
        def f(x, log):
            with torch.no_grad():
                log.append(x * 2)
            log.append(x * 3)
        """,
        inputs=["t(3, grad=True), []"] * 2,
        graphs=1,
    ),
    Case(
        "constants are not shared between calls",
        """
        def f(x, log):
            fresh = []
            fresh.append(x + 1)
            log.append(fresh)
            return fresh
        """,
        inputs=LOG,
        graphs=["add"],
    ),
    Case(
        "generator effects happen when consumed",
        """
        def g(log):
            for i in range(2):
                log.append(i)
                yield i
        def f(x, log):
            it = g(log)
            log.append('before')
            return x + sum(it)
        """,
        inputs=LOG,
        graphs=["add"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_effects(case: Case) -> None:
    case.check()
