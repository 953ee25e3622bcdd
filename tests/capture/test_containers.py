"""Lists, tuples, dicts, sets, ranges, slices, and the containers of `collections`."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

TWO = ["t(3), t(3)", "t(3), t(3)"]
LIST = ["t(3), [t(3), t(3)]", "t(3), [t(3), t(3)]"]
DICT = ["t(3), {'a': t(3), 'b': 2}", "t(3), {'a': t(3), 'b': 2}"]

LISTS = [
    Case("list display", "def f(x): return [x, x + 1, 2]", graphs=["add"]),
    Case(
        "list append of an argument",
        """
        def f(x, xs):
            xs.append(x.sin())
            return xs[0] + x
        """,
        inputs=["t(3), [t(3)]", "t(4), [t(4)]"],
        graphs=["sin add"],
        guards=["L['xs']"],
        compiles=2,
    ),
    Case("list index and slice", "def f(x, xs): return xs[-1] + xs[0:1][0]", LIST, ["add"]),
    Case(
        "list extend",
        """
        def f(x, xs):
            xs.extend([x, x + 1])
            return len(xs)
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case(
        "list insert",
        """
        def f(x, xs):
            xs.insert(0, x * 2)
            return xs[0]
        """,
        inputs=LIST,
        graphs=["mul"],
    ),
    Case(
        "list pop",
        """
        def f(x, xs):
            last = xs.pop()
            return last + xs.pop(0)
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case(
        "list remove number",
        """
        def f(x, ns):
            ns.remove(2)
            return x * sum(ns)
        """,
        inputs=["t(3), [1, 2, 3]", "t(3), [1, 2, 3]"],
        graphs=["mul"],
    ),
    Case(
        "list clear",
        """
        def f(x, xs):
            xs.clear()
            return x + len(xs)
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case(
        "list reverse",
        """
        def f(x, xs):
            xs.reverse()
            return xs[0] - x
        """,
        inputs=LIST,
        graphs=["sub"],
    ),
    Case(
        "list sort",
        """
        def f(x, ns):
            ns.sort()
            return x * ns[0]
        """,
        inputs=["t(3), [3, 1, 2]", "t(3), [3, 1, 2]"],
        graphs=["mul"],
    ),
    Case(
        "list sort with key",
        """
        def f(x, ns):
            ns.sort(key=lambda n: -n, reverse=False)
            return x * ns[0]
        """,
        inputs=["t(3), [3, 1, 2]", "t(3), [3, 1, 2]"],
        graphs=["mul"],
    ),
    Case(
        "list item assignment",
        """
        def f(x, xs):
            xs[1] = x.sin()
            return xs
        """,
        inputs=LIST,
        graphs=["sin"],
    ),
    Case(
        "list slice assignment",
        """
        def f(x, xs):
            xs[:1] = [x + 1, x + 2]
            return len(xs)
        """,
        inputs=LIST,
        graphs=["add add"],
    ),
    Case(
        "list del item",
        """
        def f(x, xs):
            del xs[0]
            return xs[0] + x
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case(
        "list del slice",
        """
        def f(x, xs):
            del xs[:]
            return x * 2
        """,
        inputs=LIST,
        graphs=["mul"],
    ),
    Case("list plus and times", "def f(x): return ([x] + [x + 1]) * 2", graphs=["add"]),
    Case(
        "list in-place plus",
        """
        def f(x, xs):
            xs += [x * 3]
            return xs[-1]
        """,
        inputs=LIST,
        graphs=["mul"],
    ),
    Case(
        "list in-place times",
        """
        def f(x, xs):
            xs *= 2
            return x + len(xs)
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case(
        "list copy",
        """
        def f(x, xs):
            ys = xs.copy()
            ys.append(x + 1)
            return ys
        """,
        inputs=LIST,
        graphs=["add"],
    ),
    Case("list of a range", "def f(x): return x * list(range(2, 9, 3))[-1]", graphs=["mul"]),
    Case("list count and index", "def f(x, ns): return x * ns.count(1) + ns.index(3)", ["t(3), [1, 1, 3]", "t(3), [1, 1, 3]"], ["mul add"]),
    Case("list comparison", "def f(x, ns): return x if ns == [1, 2] else -x", ["t(3), [1, 2]", "t(3), [1, 3]"], ["neg"], compiles=2),
    Case("list ordering", "def f(x, ns): return x + 1 if ns < [2] else x - 1", ["t(3), [1]", "t(3), [3]"], ["add", "sub"], compiles=2),
    Case(
        "list membership",
        "def f(x, ns): return x + 1 if 3 in ns else x - 1",
        inputs=["t(3), [1, 3]", "t(3), [1, 2]"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "tensor membership by identity",
        "def f(x, xs): return any(y is x for y in xs)",
        inputs=["*(lambda x: (x, [t(3), x]))(t(3))", "t(3), [t(3), t(3)]"],
        graphs=[],
        compiles=None,
    ),
    Case(
        "nested lists",
        """
        def f(x, xs):
            xs[0][1] = x + 1
            return xs[0][0] * xs[1][0]
        """,
        inputs=["t(3), [[t(3), 0], [2]]", "t(3), [[t(3), 0], [2]]"],
        graphs=["add mul"],
    ),
    Case(
        "the same list twice",
        """
        def f(x, xs, ys):
            xs.append(x + 1)
            return len(ys)
        """,
        inputs=["t(3), *[[t(3)]] * 2", "t(3), *[[t(3)]] * 2"],
        graphs=["add"],
    ),
    Case(
        "shared then separate lists",
        """
        def f(x, xs, ys):
            xs.append(x + 1)
            return len(ys)
        """,
        inputs=["t(3), *[[]] * 2", "t(3), [], []"],
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "list holding itself is not entered",
        "def f(x, xs): return x + len(xs)",
        inputs=["t(3), (lambda l: l.append(l) or l)([])", "t(3), (lambda l: l.append(l) or l)([])"],
        graphs=["add"],
    ),
    Case("starred list", "def f(x, xs): return [x, *xs, *xs]", LIST, []),
    Case("truth of a list", "def f(x, xs): return x + 1 if xs else x - 1", ["t(3), [1]", "t(3), []"], ["add", "sub"], compiles=2),
    Case(
        "list grown in a loop",
        """
        def f(x):
            out = []
            for i in range(3):
                out.append(x * i)
            return torch.stack(out)
        """,
        graphs=["mul mul mul stack"],
    ),
]

TUPLES = [
    Case("tuple display", "def f(x): return x, (x + 1, 'a', None)", graphs=["add"]),
    Case(
        "tuple unpacking",
        """
        def f(x, pair):
            a, (b, c) = pair
            return x + a * b - c
        """,
        inputs=["t(3), (1, (t(3), 2))", "t(3), (1, (t(3), 2))"],
        graphs=["mul add sub"],
    ),
    Case(
        "starred unpacking",
        """
        def f(x, xs):
            first, *rest, last = xs
            return first + len(rest) + last
        """,
        inputs=["t(3), (t(3), 1, 2, t(3))", "t(3), (t(3), 1, 2, t(3))"],
        graphs=["add add"],
    ),
    Case("tuple concatenation and slicing", "def f(x): return ((x,) + (x + 1,) * 2)[1:]", graphs=["add"]),
    Case("tuple compared", "def f(x, p): return x * 2 if p >= (1, 2) else x", ["t(3), (1, 3)", "t(3), (0, 9)"], ["mul"], compiles=2),
    Case("tuple index and count", "def f(x, p): return x + p.index(5) + p.count(5)", ["t(3), (4, 5, 5)", "t(3), (4, 5, 5)"], ["add add"]),
    Case("tuple hash as key", "def f(x, d): return x * d[(1, 'a')]", ["t(3), {(1, 'a'): 3}", "t(3), {(1, 'a'): 3}"], ["mul"]),
    Case(
        "namedtuple built",
        """
        from collections import namedtuple
        P = namedtuple('P', 'a b')
        def f(x): return P(x + 1, b=x * 2)
        """,
        graphs=["add mul"],
    ),
    Case(
        "namedtuple argument",
        """
        from collections import namedtuple
        P = namedtuple('P', 'a b')
        def f(p): return p.a + p[1]
        """,
        inputs=["P(t(3), t(3))", "P(t(3), t(3))"],
        graphs=["add"],
    ),
    Case(
        "namedtuple replace",
        """
        from collections import namedtuple
        P = namedtuple('P', 'a b')
        def f(p): return p._replace(a=p.b * 2)
        """,
        inputs=["P(t(3), t(3))", "P(t(3), t(3))"],
        graphs=["mul"],
    ),
    Case(
        "namedtuple asdict",
        """
        from collections import namedtuple
        P = namedtuple('P', 'a b', defaults=[4])
        def f(x): return x + len(P(x)._asdict()) + P(x).b
        """,
        graphs=["add add"],
    ),
    Case(
        "typing.NamedTuple with a method",
        """
        from typing import NamedTuple
        class P(NamedTuple):
            a: object
            k: int = 3
            def scaled(self): return self.a * self.k
        def f(x): return P(x).scaled()
        """,
        graphs=["mul"],
    ),
    Case(
        "torch.Size",
        "def f(x): return x.new_zeros(x.size()) + x.shape.numel() + len(x.size())",
        inputs=["t(2, 3)", "t(2, 3)"],
        graphs=["new_zeros add add"],
    ),
    Case(
        "torch.Size built and compared",
        "def f(x): return x + 1 if x.shape == torch.Size([2, 3]) else x",
        inputs=["t(2, 3)", "t(2, 3)"],
        graphs=["add"],
    ),
    Case("returned torch.Size", "def f(x): return (x + 1).shape", ["t(2, 3)", "t(2, 3)"], None),
    Case("tuple of a generator", "def f(x): return tuple(x + i for i in range(3))", graphs=["add add add"]),
    Case(
        "result of a torch function with names",
        """
        def f(x):
            r = torch.max(x, dim=0)
            return r.values + 1, r.indices
        """,
        inputs=["t(2, 3)", "t(2, 3)"],
        graphs=1,
    ),
    Case(
        "result of a torch function unpacked",
        """
        def f(x):
            v, i = torch.topk(x, 2)
            return v * 2, i
        """,
        inputs=["t(5)", "t(5)"],
        graphs=1,
    ),
]

DICTS = [
    Case("dict display", "def f(x): return {'a': x + 1, 2: x}", graphs=["add"]),
    Case("dict lookup", "def f(x, d): return x + d['a'] * d['b']", DICT, ["mul add"], guards=["L['d']"]),
    Case(
        "dict item assignment",
        """
        def f(x, d):
            d['c'] = x.sin()
            d['b'] = 5
        """,
        inputs=DICT,
        graphs=["sin"],
    ),
    Case(
        "dict del",
        """
        def f(x, d):
            del d['b']
            return x + len(d)
        """,
        inputs=DICT,
        graphs=["add"],
    ),
    Case("dict get", "def f(x, d): return x * d.get('b', 1) + d.get('z', 7)", DICT, ["mul add"]),
    Case("dict setdefault", "def f(x, d): return d.setdefault('n', x + 1) * d.setdefault('b', 9)", DICT, ["add mul"]),
    Case("dict pop", "def f(x, d): return d.pop('a') + d.pop('nothing', 3)", DICT, ["add"]),
    Case(
        "dict popitem",
        """
        def f(x, d):
            k, v = d.popitem()
            return x * v, k
        """,
        inputs=DICT,
        graphs=["mul"],
    ),
    Case(
        "dict update",
        """
        def f(x, d):
            d.update({'a': x + 1}, z=2)
            return d
        """,
        inputs=DICT,
        graphs=["add"],
    ),
    Case(
        "dict clear",
        """
        def f(x, d):
            d.clear()
            return x + 1
        """,
        inputs=DICT,
        graphs=["add"],
    ),
    Case(
        "dict merge operators",
        """
        def f(x, d):
            e = d | {'c': x + 1}
            e |= {'d': 1}
            return e
        """,
        inputs=DICT,
        graphs=["add"],
    ),
    Case(
        "dict views",
        "def f(x, d): return x * len(d.keys()) + sum(v for v in d.values() if isinstance(v, int)), list(d.items())[0][0]",
        inputs=DICT,
        graphs=["mul add"],
    ),
    Case("dict membership", "def f(x, d): return x + 1 if 'a' in d and 'q' not in d else x", DICT, ["add"]),
    Case(
        "dict copy",
        """
        def f(x, d):
            e = d.copy()
            e['z'] = x * 2
            return e
        """,
        inputs=DICT,
        graphs=["mul"],
    ),
    Case("dict fromkeys", "def f(x): return dict.fromkeys(['a', 'b'], x + 1)", graphs=["add"]),
    Case("dict constructor", "def f(x): return dict([('a', x + 1)], b=2)", graphs=["add"]),
    Case("dict unpacking", "def f(x, d): return {**d, 'c': x + 1}", DICT, ["add"]),
    Case("dict comprehension", "def f(x, d): return {k: v * 2 for k, v in d.items()}", DICT, ["mul"]),
    Case(
        "dict iteration",
        """
        def f(x, d):
            for k in d:
                x = x * d[k]
            return x
        """,
        inputs=DICT,
        graphs=["mul mul"],
    ),
    Case(
        "dict with tensor keys",
        """
        def f(x):
            d = {x: 3}
            return x * d[x]
        """,
        graphs=["mul"],
    ),
    Case(
        "dict order is observed",
        "def f(x, d): return [k for k in d]",
        inputs=["t(3), {'a': 1, 'b': 2}", "t(3), {'b': 2, 'a': 1}"],
        graphs=[],
        compiles=None,
    ),
    Case(
        "dict equality",
        "def f(x, d): return x + 1 if d == {'k': 1} else x - 1",
        inputs=["t(3), {'k': 1}", "t(3), {'k': 2}"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case("dict with integer keys", "def f(x, d): return x * d[0] + d[True]", ["t(3), {0: 2, 1: 3}", "t(3), {0: 2, 1: 3}"], ["mul add"]),
    Case(
        "nested dict mutated",
        """
        def f(x, d):
            d['in']['n'] += 1
            d['in']['x'] = x + d['in']['n']
        """,
        inputs=["t(3), {'in': {'n': 0}}", "t(3), {'in': {'n': 0}}"],
        graphs=["add"],
    ),
    Case("reversed dict", "def f(x, d): return [k for k in reversed(d)], x + 1", DICT, ["add"]),
    Case(
        "OrderedDict",
        """
        from collections import OrderedDict
        def f(x):
            d = OrderedDict([('a', x), ('b', x + 1)])
            d.move_to_end('a')
            return d
        """,
        graphs=["add"],
    ),
    Case(
        "OrderedDict argument",
        """
        from collections import OrderedDict
        def f(x, d):
            d['z'] = x * 2
            return list(d)
        """,
        inputs=["t(3), OrderedDict(a=1)", "t(3), OrderedDict(a=1)"],
        graphs=["mul"],
    ),
    Case(
        "defaultdict",
        """
        from collections import defaultdict
        def f(x):
            d = defaultdict(list)
            d['a'].append(x + 1)
            d['a'].append(x)
            return d['a'], len(d)
        """,
        graphs=["add"],
    ),
    Case(
        "defaultdict argument",
        """
        from collections import defaultdict
        def f(x, d):
            d['new'] += 2
            return x * d['new']
        """,
        inputs=["t(3), defaultdict(int)", "t(3), defaultdict(int)"],
        graphs=["mul"],
    ),
    Case(
        "Counter",
        """
        from collections import Counter
        def f(x): return x * Counter('abca')['a']
        """,
        graphs=["mul"],
        compiles=None,
        fullgraph=False,
    ),
    Case(
        "ChainMap",
        """
        from collections import ChainMap
        def f(x): return x * ChainMap({'a': 2}, {'b': 3})['b']
        """,
        graphs=["mul"],
        compiles=None,
        fullgraph=False,
    ),
    Case(
        "deque",
        """
        from collections import deque
        def f(x):
            d = deque([x], maxlen=2)
            d.append(x + 1)
            d.append(x + 2)
            return d.popleft() * len(d)
        """,
        graphs=["add add mul"],
    ),
    Case(
        "deque argument",
        """
        from collections import deque
        def f(x, d):
            d.appendleft(x * 2)
            return d[0] + 1
        """,
        inputs=["t(3), deque([1])", "t(3), deque([1])"],
        graphs=["mul add"],
    ),
    Case(
        "dict subclass with __missing__",
        """
        class D(dict):
            def __missing__(self, key): return len(key)
        def f(x):
            d = D(a=1)
            return x * d['a'] + d['long']
        """,
        graphs=["mul add"],
    ),
    Case(
        "list subclass",
        """
        class L(list):
            def total(self): return sum(self)
        def f(x): return x * L([1, 2, 3]).total()
        """,
        graphs=["mul"],
    ),
    Case(
        "mapping proxy",
        """
        import types
        M = types.MappingProxyType({'k': 3})
        def f(x): return x * M['k']
        """,
        graphs=["mul"],
        compiles=None,
        fullgraph=False,
    ),
]

SETS = [
    Case(
        "set display and membership",
        "def f(x, n): return x + 1 if n in {1, 2} else x - 1",
        inputs=["t(3), 1", "t(3), 5"],
        graphs=["add", "sub"],
        compiles=2,
    ),
    Case(
        "set add",
        """
        def f(x, s):
            s.add(7)
            return x * len(s)
        """,
        inputs=["t(3), {1}", "t(3), {1}"],
        graphs=["mul"],
    ),
    Case(
        "set discard and remove",
        """
        def f(x, s):
            s.discard(1)
            s.remove(2)
            return x * len(s)
        """,
        inputs=["t(3), {1, 2, 3}", "t(3), {1, 2, 3}"],
        graphs=["mul"],
    ),
    Case(
        "set operators",
        """
        def f(x):
            s = ({1, 2, 3} & {2, 3, 4} | {9}) - {3} ^ {2, 5}
            return x * sum(sorted(s))
        """,
        graphs=["mul"],
    ),
    Case("set methods", "def f(x): return x + len({1, 2}.union([3]).intersection({1, 3}).difference({1}))", graphs=["add"]),
    Case("subset tests", "def f(x): return x + 1 if {1} <= {1, 2} and {3}.isdisjoint({1}) else x", graphs=["add"]),
    Case("set comprehension", "def f(x): return x * len({n % 3 for n in range(10)})", graphs=["mul"]),
    Case(
        "frozenset",
        """
        S = frozenset(['a', 'b'])
        def f(x, k): return x + 1 if k in S else x
        """,
        inputs=["t(3), 'a'", "t(3), 'a'"],
        graphs=["add"],
    ),
    Case(
        "set update in place",
        """
        def f(x, s):
            s |= {4, 5}
            s.update([6])
            return x * len(s)
        """,
        inputs=["t(3), {4}", "t(3), {4}"],
        graphs=["mul"],
    ),
    Case(
        "set of tensors",
        """
        def f(x):
            s = {x}
            s.add(x)
            return x * len(s)
        """,
        graphs=["mul"],
    ),
    Case("set argument recompiles", "def f(x, s): return x * len(s)", ["t(3), {1}", "t(3), {1, 2}"], ["mul"], compiles=2),
]

RANGES = [
    Case(
        "range length and item",
        """
        def f(x):
            r = range(1, 10, 2)
            return x * len(r) + r[2] + r[-1]
        """,
        graphs=["mul add add"],
    ),
    Case("range membership", "def f(x, n): return x + 1 if n in range(0, 10, 5) else x", ["t(3), 5", "t(3), 5"], ["add"]),
    Case(
        "range slice and attributes",
        """
        def f(x):
            r = range(10)[2:8:3]
            return x * r.start + r.stop + r.step
        """,
        graphs=["mul add add"],
    ),
    Case(
        "slice object",
        """
        def f(x):
            s = slice(1, None, 2)
            return x[s] + (s.start or 0)
        """,
        inputs=["t(6)", "t(6)"],
        graphs=["getitem add"],
    ),
    Case("slice indices", "def f(x): return x + sum(slice(1, 100, 2).indices(6))", graphs=["add"]),
    Case("slice argument", "def f(x, s): return x[s] * 2", ["t(6), slice(1, 3)", "t(6), slice(1, 3)"], ["getitem mul"]),
    Case("range argument", "def f(x, r): return x * sum(r)", ["t(3), range(4)", "t(3), range(5)"], ["mul"], compiles=2),
    Case("bytes and bytearray", "def f(x, b): return x * b[1] + len(b)", ["t(3), b'abc'", "t(3), b'abc'"], ["mul add"]),
]


@pytest.mark.parametrize("case", LISTS + TUPLES, ids=lambda case: case.name)
def test_sequences(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", DICTS + SETS + RANGES, ids=lambda case: case.name)
def test_mappings_and_sets(case: Case) -> None:
    case.check()
