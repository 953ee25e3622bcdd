"""Plain Python values in traced code: every program runs in eager and captured as one graph, with equal results and equal mutations.

A row is a program body over `x` (a tensor) and fresh arguments; what it returns, raises and changes is compared.
"""

# ruff: noqa: E501, F401  # a program reads best as one line, and uses the imports

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import re
import textwrap
import types
import typing
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest
import torch

from tests.symbolic.running import check

Point = namedtuple("Point", "a b", defaults=[7])  # noqa: PYI024  # the untyped form is what is tested


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    @property
    def loud(self) -> str:
        return self.name.upper() + "!"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(enum.Flag):
    A = 1
    B = 2


class Word(str, enum.Enum):  # noqa: UP042  # the older form is what is tested
    HI = "hi"


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any = 2
    rest: list[Any] = dataclasses.field(default_factory=list)

    def total(self) -> Any:
        return self.a + self.b


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int
    m: int = 0


@dataclasses.dataclass
class Output(OrderedDict):
    """The pattern of transformers' ModelOutput: a dataclass that is an OrderedDict of its fields."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            v = getattr(self, f.name)
            if v is not None:
                self[f.name] = v

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, str):
            return dict(self.items())[k]
        return self.to_tuple()[k]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self[k] for k in self.keys())


class MyList(list):
    def append(self, v: Any) -> None:
        super().append(v * 2)

    def __len__(self) -> int:
        return 100 + super().__len__()


class MyDict(dict):
    def __missing__(self, k: Any) -> Any:
        return f"no {k}"


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


class Vec:
    def __init__(self, *v: Any) -> None:
        self.v = list(v)

    def __add__(self, o: Any) -> Any:
        return Vec(*(a + b for a, b in zip(self.v, o.v)))

    def __radd__(self, o: Any) -> Any:
        return ("radd", o, self.v)

    def __eq__(self, o: object) -> Any:
        return isinstance(o, Vec) and self.v == o.v

    def __hash__(self) -> int:
        return hash(tuple(self.v))

    def __lt__(self, o: Any) -> bool:
        return self.v < o.v

    def __getitem__(self, i: Any) -> Any:
        return self.v[i]

    def __len__(self) -> int:
        return len(self.v)

    def __contains__(self, k: Any) -> bool:
        return k == "magic" or k in self.v

    def __iter__(self) -> Any:
        yield from self.v

    def __call__(self, k: Any) -> Any:
        return [k * a for a in self.v]

    def __index__(self) -> int:
        return 1

    def __bool__(self) -> bool:
        return self.v[0] > 0

    def __repr__(self) -> str:
        return f"Vec({self.v!r})"

    def __format__(self, spec: str) -> str:
        return f"<{spec}>"

    def __float__(self) -> float:
        return 2.5

    def __enter__(self) -> Any:
        self.v.append("in")
        return self

    def __exit__(self, *e: Any) -> bool:
        self.v.append("out" if e[0] is None else e[0].__name__)
        return True


class Base:
    k = 3

    def who(self) -> str:
        return "base"

    @classmethod
    def make(cls) -> Any:
        return cls()

    @staticmethod
    def st(n: int) -> int:
        return n + 1

    @property
    def prop(self) -> int:
        return self.k * 2


class Derived(Base):
    def who(self) -> str:
        return "derived " + super().who() + super().who()

    def __getattr__(self, n: str) -> Any:
        if n.startswith("dyn"):
            return n
        raise AttributeError(n)


def count_up(n: int) -> Any:
    got = []
    for i in range(n):
        try:
            r = yield i
        except ValueError as e:
            r = str(e)
        got.append(r)
    return got


def delegating(n: int) -> Any:
    r = yield from count_up(n)
    yield ("result", r)


@functools.singledispatch
def kind(v: Any) -> str:
    return "object"


@kind.register
def _(v: int) -> str:
    return "int"


@functools.cache
def cached(n: int) -> int:
    return n * n


class MyError(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


PROGRAMS = {
    "lists": """
        xs.append(4); xs.extend((5, 6)); xs.insert(0, 9); xs += [1]; return xs, len(xs)
        return xs.pop(), xs.pop(0), xs
        xs.remove(2); xs.reverse(); return xs, xs.index(3), xs.count(1)
        xs.sort(reverse=True); return xs
        xs.sort(key=lambda v: -v); ys = xs.copy(); ys.clear(); return xs, ys
        xs[1:2] = [7, 8, 9]; del xs[0]; return xs
        xs[::2] = [0, 0]; return xs, xs[-1], xs[::-1], xs[1:]
        return xs + [1], xs * 2, 2 * xs, [0] * 3
        return xs == [1, 2, 3], xs != [1], xs < [1, 3], xs >= [1, 2], [] < xs, xs is xs
        return 2 in xs, 9 not in xs, min(xs), max(xs, key=lambda v: -v), sum(xs, 10)
        a, *b = xs; *c, d = xs; return a, b, c, d
        return [v * 2 for v in xs if v > 1], [(i, j) for i in xs for j in xs if i < j]
        return list(reversed(xs)), sorted(xs, reverse=True), list(map(str, xs)), list(filter(None, [0, 1, 2]))
        ys = [x, x + 1]; ys.append(ys[0] * 2); ys[0] = None; return ys
        m = MyList([1]); m.append(3); return m, len(m), list.__len__(m), m[0]
        m = MyList(); m.extend(xs); m.tag = 'x'; return m, m.tag, isinstance(m, list), type(m).__name__
        it = iter(xs); next(it); xs.append(7); return list(it), next(it, 'end')
        ys = [[0] * 2 for _ in range(2)]; ys[0][1] = 5; return ys
        for v in xs:
            if v < 3: xs.append(v + 2)
        return xs
        return xs.__getitem__(1), xs.__len__(), xs.__contains__(3), list.__add__(xs, [1])
    """,
    "tuples": """
        t = (1, x, 'a'); a, b, c = t; return t[1:], t + (2,), t * 2, len(t), 'a' in (1, 'a'), c
        return (1, 2) < (1, 3), (1, 2) == (1, 2), (1,) != (2,), (3, 1).index(1), (1, 1).count(1)
        p = Point(1); q = p._replace(b=x); return p, q, p._asdict(), p.a, p[1], Point._fields, q.b + p.a
        p = Point._make([3, 4]); a, b = p; return p, a + b, isinstance(p, tuple), repr(p), p == (3, 4)
        return tuple(xs), tuple(v + 1 for v in xs), tuple('ab'), (*xs, 1)
        return x.shape, x.shape[0], x.shape[-1:], len(x.shape), x.shape.numel(), tuple(x.shape), list(x.size())
        return x.shape + (1,), torch.Size([1, 2]), x.view(x.shape), x.shape == (3,), (3,) == x.shape
        return hash((1, 'a')) == hash((1, 'a')), {(1, 2): 'k'}[(1, 2)]
        return max((3, 'b'), (3, 'a')), sorted([(2, 'a'), (1, 'z'), (1, 'b')])
    """,
    "dicts": """
        d['n'] = x; d.update(a=5, z=1); d |= {'q': 2}; return d, len(d), list(d)
        return d.get('a'), d.get('nope'), d.get('nope', 3), 'a' in d, 'q' not in d
        return d.pop('a'), d.pop('zz', None), d.popitem(), d
        return d.setdefault('a', 1), d.setdefault('new', []), d
        return list(d.keys()), list(d.values()), list(d.items()), dict(d), {**d, 'e': 1}
        return {k: v for k, v in d.items()}, dict(zip('ab', xs)), dict([('p', 1)], q=2), dict.fromkeys('ab', 0)
        del d['a']; d['a'] = 9; return d, list(reversed(d)), d == {'b': 2, 'a': 9}
        return d.keys() & {'a'}, d.keys() | {'z'}, d.keys() - {'a'}, d.keys() ^ {'a', 'q'}, d.items() == {'a': 1, 'b': 2}.items()
        o = OrderedDict(d); o.move_to_end('a'); o.move_to_end('a', last=False); o['c'] = x; return o, o.popitem(last=False), o.popitem()
        dd = defaultdict(list); dd['a'].append(1); dd['a'].append(x); dd['b']; return dd, dd.default_factory is list, len(dd)
        dd = defaultdict(lambda: 3, k=1); return dd['k'] + dd['m'], sorted(dd), dd.get('zz'), dd.copy()
        c = Counter('abca'); c.update('aa'); return c, c['zz'], c.most_common(1), c + Counter('b'), sum(c.values())
        m = MyDict(a=1); return m['a'], m['b'], m.get('b'), m
        cm = ChainMap({'a': 1}, d); return cm['a'], cm['b'], len(cm), list(cm)
        for k in list(d): d[k + k] = d.pop(k)
        return d
        return {1: 'i', 1.0: 'f', True: 't'}, {None: 1}[None], {x: 1}[x], {len: 2}[len], {Color.RED: 1}[Color.RED]
        return d | {'x': 1}, d.copy(), types.MappingProxyType({'a': 1})['a']
        k = {Frozen(1): 'a', Frozen(2): 'b'}; return k[Frozen(2)], Frozen(3) in k, k.get(Frozen(1)), len(k)
        k = {Vec(1): 'a'}; k[Vec(1)] = 'b'; return list(k.values()), Vec(2) in k
        def g(**kw): return kw
        return g(**d, z=1), g()
    """,
    "sets": """
        s.add(9); s.discard(1); s.discard(77); s.remove(2); return sorted(s), len(s), 9 in s
        return sorted(s | {7}), s & {1}, s - {1, 2}, s ^ {1, 50}, s <= {1, 2, 3, 4}, s == {1, 2, 3}, {1} < s
        s.update([4, 5], {6}); s.intersection_update({1, 4, 5}); s -= {1}; s |= {8}; return s
        return s.union([9]), s.intersection([1]), s.difference([1]), s.symmetric_difference([1]), s.issubset([1, 2, 3]), s.isdisjoint([9])
        return frozenset([1, 2]), frozenset('a') | {'b'}, {frozenset([1])}, {v % 2 for v in range(5)}, set('aab')
        t = s.copy(); t.clear(); return t, s, set(), bool(t), {1}.pop()
        return {x} == {x}, x in {x}, len({x, x + 1}), {1, 2} > {1}
    """,
    "deques": """
        q = deque(xs, maxlen=3); q.append(4); q.appendleft(0); return list(q), q.maxlen, q[0], q[-1], len(q)
        q = deque(xs); q.rotate(1); q.extendleft([8, 9]); return q.popleft(), q.pop(), q, list(reversed(q)), 3 in q
        q = deque(); q.append(x); q.extend([1, 2]); q.popleft(); q.remove(1); q.insert(1, 'i'); return list(q), q.count(2), q.index(2), q.copy(), x
    """,
    "iteration": """
        return list(zip(xs, 'abc', [x, x, x])), list(zip()), dict(enumerate(xs)), list(enumerate(xs, 5))
        return list(map(lambda a, b: a + b, xs, [1, 1])), list(map(operator.neg, xs))
        return any(v > 2 for v in xs), all(xs), any([]), all([]), sum(v * x for v in xs)
        it = iter(xs); return next(it), list(it), next(it, None)
        n = iter([3, 2, 0, 1]); return list(iter(lambda: next(n), 0)), list(n)
        z = zip(xs, [1]); e = enumerate(z); return next(e), list(e)
        return list(itertools.chain(xs, 'a')), list(itertools.chain.from_iterable([[1], [2, 3]])), list(itertools.islice(xs, 1, None))
        return list(itertools.product([1, 2], 'ab')), list(itertools.permutations(xs, 2)), list(itertools.combinations(xs, 2))
        return list(itertools.accumulate(xs)), list(itertools.accumulate(xs, operator.mul)), list(itertools.accumulate([x, x], initial=x))
        return list(itertools.zip_longest(xs, [1], fillvalue=0)), list(itertools.repeat(1, 3)), list(itertools.starmap(pow, [(2, 3)]))
        return list(itertools.takewhile(lambda v: v < 3, xs)), list(itertools.dropwhile(lambda v: v < 2, xs)), list(itertools.filterfalse(None, [0, 1]))
        return [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3], key=lambda v: v // 2)], list(itertools.pairwise(xs))
        a, b = itertools.tee(xs); next(a); return list(a), list(b), list(itertools.compress('abc', [1, 0, 1]))
        c = itertools.count(5, 2); cy = itertools.cycle('ab'); return next(c), next(c), [next(cy) for _ in range(5)]
        return list(itertools.combinations_with_replacement('ab', 2)), functools.reduce(lambda a, b: a * b, xs), functools.reduce(operator.add, [x, x], x)
        g = count_up(3); return next(g), g.send('a'), g.throw(ValueError('v')), list(g)
        g = delegating(2); return next(g), g.throw(ValueError, 'boom'), next(g), list(g)
        g = count_up(2); next(g); g.close(); return list(g)
        return list(Vec(1, 2)), [*Vec(3)], 'magic' in Vec(), 2 in Vec(2), Vec(1, 2)[1], len(Vec(1))
        def gen():
            yield from xs
            yield x
            return 5
        return [*gen()], max(gen(), key=lambda v: 0 if v is x else v), list(zip(gen(), gen()))
        total = 0
        for i, v in enumerate(reversed(xs)):
            if i == 1: continue
            total += v
        else:
            total += 100
        return total
        while xs:
            if xs.pop() == 2: break
        return xs
        return sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)), sorted('hello', key=str.upper)
        return [*range(3)], list(range(5, 0, -2)), len(range(4)), 2 in range(3), range(5)[1:3], list(reversed(range(3)))
        return sorted([Vec(2), Vec(1)]), min(Vec(3), Vec(1)), Vec(1) == Vec(1), Vec(1) != Vec(2)
    """,
    "strings": """
        return f'{x.shape} {xs!r:>12} {d} {1.5:.2f} {"a":>3}{3:03d}', f'{Vec(1)} {Vec(1)!r} {Vec(2):spec} {None} {True}'
        return ','.join(str(v) for v in xs), 'a-b'.split('-'), 'abc'.upper(), ' a '.strip(), 'abc'[::-1], 'b' in 'abc'
        return '{} {1} {k!r:>4} {z[0]} {w.a}'.format(1, 2, k='s', z=xs, w=Point(5)) if False else '{} {k!r:>4} {z[0]} {w.a}'.format(1, k='s', z=xs, w=Point(5))
        return '%d %s %r %5.1f %%' % (1, 'a', [1], 2.0), '%(a)s' % d, '%s' % x.dtype, '%s' % (Vec(1),)
        return str(x.dtype), str(x.device), repr(xs), str(d), str((1,)), str({1}), repr(Color.RED), str(Level.LOW)
        return 'abc'.startswith(('a', 'z')), 'a,b'.partition(','), 'abc'.replace('b', 'x'), 'aXb'.lower().title(), 'x'.join(['1', '2'])
        return str(Point(1, 'a')), repr(Pair(1)), str(Frozen(1)), repr(OrderedDict(a=1)), repr(deque([1])), repr(defaultdict(int, a=1))
        return 'é'.encode(), b'ab'.decode(), ord('a'), chr(98), hex(255), bin(5), ascii('é'), int('12'), float('1.5'), int('ff', 16)
        return format(3.14159, '.3f'), format(42, '>6'), format(Vec(1), 'q'), '{:>{w}}'.format('a', w=4)
        return bool(re.match('a+', 'aab')), re.compile('b').sub('x', 'abc'), re.findall('[0-9]+', 'a1b22'), re.match('(a)(b)', 'ab').groups()
    """,
    "numbers": """
        return 7 // 2, -7 % 3, 2 ** 10, 7 / 2, divmod(7, 2), abs(-3), round(2.567, 2), pow(2, 3, 5), 1 << 3, 6 & 3, ~5
        return int(3.7), float(2), bool([]), complex(1, 2), int(True), max(1, 2.5), min(3, 1, 2), math.sqrt(4), math.pi
        return math.floor(2.7), math.ceil(x.shape[0] / 2), math.prod(xs), math.prod([x, x]), math.gcd(12, 8), math.inf > 1, math.isnan(0.0)
        return (5).bit_length(), (2.5).is_integer(), float('inf'), 1_000, 0.1 + 0.2, 3 == 3.0, float(Vec(1)), xs[Vec(1)]
        return Level.HIGH + 1, Level.LOW < Level.HIGH, int(Level.LOW), xs[Level.LOW], Mode.A | Mode.B, Mode.A in (Mode.A | Mode.B), x * Level.HIGH
        return operator.add(1, 2), operator.itemgetter(1)(xs), operator.itemgetter('a', 'b')(d), operator.attrgetter('a')(Point(3)), operator.methodcaller('count', 1)(xs)
        return operator.mul(x, 2), operator.getitem(xs, 0), operator.not_(xs), operator.contains(xs, 1), operator.index(3), operator.truth([])
        n = x.shape[0]; n += 1; n *= 2; return x * n, n if n > 3 else -n, 1 < n < 10, not n, n and 'y', 0 or 'z'
    """,
    "classes": """
        p = Pair(x); p.rest.append(1); p.b = 5; return p, p.total(), Pair(1) == Pair(1), Pair(1) != Pair(2), dataclasses.is_dataclass(p)
        return dataclasses.replace(Pair(1), a=x), [f.name for f in dataclasses.fields(Pair)], dataclasses.asdict(Pair(1, [2])), dataclasses.astuple(Pair(1))
        return Frozen(1) < Frozen(2), Frozen(1) == Frozen(1), hash(Frozen(1)) == hash(Frozen(1)), {Frozen(1)} == {Frozen(1)}
        o = Output(loss=x, logits=None); o.logits = x + 1; return o.loss, o['loss'], o[0], list(o.keys()), o.to_tuple(), o, len(o)
        s = Slots(x); s.b = 3; del s.a; return hasattr(s, 'a'), s.b, getattr(s, 'a', None)
        v = Vec(1, x); return v + v, v(3), bool(v), isinstance(v, Vec), [1] + Vec(2), Vec(1) in [Vec(1)]
        o = Derived(); return o.who(), o.k, o.prop, Derived.make().who(), o.st(3), Base.st(1), o.dynamic, hasattr(o, 'zz'), getattr(o, 'zz', 5)
        o = Base(); o.k = x; setattr(o, 'm', 2); delattr(o, 'm'); return o.k, hasattr(o, 'm'), vars(o), o.__dict__, o.__class__.__name__
        return isinstance(1, (int, str)), isinstance(x, torch.Tensor), isinstance(True, int), issubclass(Derived, Base), isinstance([], list | tuple), isinstance(x, torch.nn.Parameter)
        return isinstance([], typing.Sequence), isinstance({}, collections.abc.Mapping), isinstance(xs, collections.abc.Iterable), callable(len), callable(3), isinstance(None, type(None))
        return Color.RED.value, Color('b').name, Color['RED'] is Color.RED, Color.RED.loud, [c.name for c in Color], len(Color), Color.RED == Color.RED, Color.RED in Color
        return Word.HI == 'hi', Word.HI.upper(), {'hi': 1}[Word.HI], Word('hi'), f'{Word.HI.value}', Word.HI in ('hi',)
        f = functools.partial(lambda a, b, c=0: (a, b, c), 1, c=3); return f(2), f.args, f.keywords, functools.partial(f, 9)()
        return kind(1), kind('a'), cached(3), type(x).__name__, type(xs) is list, type(1) == int, id(x) == id(x), id(xs) == id(xs)
        n = types.SimpleNamespace(a=1, b=x); n.c = n.a + 1; return n.c, n.b, hasattr(n, 'q'), vars(n)
        with Vec(1) as v: v.v.append('body')
        return v.v
        with Vec(1) as v: raise KeyError('k')
        return v.v
        def outer():
            n = 0
            def inner():
                nonlocal n
                n += 1
                return n
            return inner
        i = outer(); return i(), i()
        def g(a, /, b, *args, c=3, **kw): return a, b, args, c, kw
        return g(1, 2), g(1, b=2, c=4, z=5), g(1, 2, 3, 4), g(*xs, **{'c': x})
        return copy.copy(xs), copy.deepcopy([xs, xs]), copy.copy(Pair(1)), copy.deepcopy(d), copy.deepcopy(Pair([1])), copy.copy(d)
        match xs:
            case [a, b, *rest]: out = (a, b, rest)
        match d:
            case {'a': v, **others}: out += (v, others)
        match Point(1, 2):
            case Point(a=1, b=q): out += (q,)
        match Pair(3, 4):
            case Pair(n, m): out += (n, m)
        match 5:
            case int(n) if n > 3: out += ('int', n)
        return out
        o = object.__new__(Base); return o.who(), type(o) is Base, Base.__name__, Base.who(o), Derived.__mro__[1] is Base, Base.__dict__['k']
        return sorted(locals()), x.shape
    """,
    "exceptions": """
        try:
            raise ValueError('a', 1)
        except (KeyError, ValueError) as e: return str(e), e.args, repr(e), type(e).__name__, isinstance(e, Exception)
        try:
            raise MyError(5)
        except ValueError as e: return str(e), e.code, e.args
        try:
            d['missing']
        except KeyError as e: return str(e), e.args[0]
        try:
            xs[10]
        except IndexError as e: return str(e)
        try:
            try:
                raise KeyError('k')
            except KeyError as e: raise RuntimeError('r') from e
        except RuntimeError as e: return repr(e.__cause__), e.__suppress_context__
        out = []
        try:
            out.append(1)
        except Exception: out.append(2)
        else: out.append(3)
        finally: out.append(4)
        return out
        def g():
            try:
                return 'try'
            finally:
                xs.append('fin')
        return g(), xs
        try:
            assert xs == [], 'not empty'
        except AssertionError as e: return str(e)
        try:
            1 / 0
        except ZeroDivisionError as e: return str(e)
        try:
            int('zz')
        except ValueError as e: return str(e)
        try:
            None.foo
        except AttributeError as e: return str(e)
        try:
            Base().nope
        except AttributeError as e: return str(e)
        try:
            len(3)
        except TypeError as e: return str(e)
        try:
            a, b = [1]
        except ValueError as e: return str(e)
        try:
            list(zip([1], [], strict=True))
        except ValueError as e: return str(e)
        try:
            Frozen(1).n = 3
        except dataclasses.FrozenInstanceError as e: return str(e)
        try:
            [].pop()
        except IndexError as e: return str(e)
        try:
            {}[[]]
        except TypeError as e: return str(e)
        try:
            'a' + 1
        except TypeError as e: return str(e)
        try:
            [1] + (2,)
        except TypeError as e: return str(e)
        try:
            max([])
        except ValueError as e: return str(e)
        try:
            next(iter([]))
        except StopIteration as e: return e.value, e.args
        try:
            (lambda a: a)()
        except TypeError as e: return str(e)
        try:
            list(count_up(1))[5]
        except IndexError as e: return str(e)
        try:
            Color('zz')
        except ValueError as e: return str(e)
        try:
            xs.remove('q')
        except ValueError as e: return str(e)
        try:
            getattr(xs, 'nope')
        except AttributeError as e: return str(e)
        try:
            isinstance(1, 2)
        except TypeError as e: return str(e)
        try:
            sorted([1, 'a'])
        except TypeError as e: return str(e)
        try:
            functools.reduce(lambda a, b: a, [])
        except TypeError as e: return str(e)
    """,
}


def cases() -> list[Any]:
    """One program per statement that is not indented; compound statements keep their blocks and what follows up to a `return`."""
    out = []
    for group, text in PROGRAMS.items():
        body: list[str] = []
        n = 0
        for line in textwrap.dedent(text).strip().splitlines():
            body.append(line)
            top = not line.startswith(" ")
            returns = (top and "return " in line) or ((group == "exceptions" and "return str" in line) or "return repr" in line)
            if group == "exceptions":
                returns = returns or (line.lstrip().startswith("except") and "return" in line)
            if returns and not (top and line.startswith("def ")):
                out.append(pytest.param("\n".join(body), id=f"{group} {n}"))
                body, n = [], n + 1
        assert not body, body
    return out


@pytest.mark.parametrize("body", cases())
def test_program(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(body, globals(), monkeypatch)
