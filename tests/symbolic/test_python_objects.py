"""User classes, the standard library and protocols in traced code, against eager. See test_python_values.py."""

# ruff: noqa: E501  # a program reads best as one line

from __future__ import annotations

import pytest

from tests.symbolic import objects, odd_objects
from tests.symbolic.running import check

PROGRAMS_OF_OBJECTS = r"""
log=[]
with cm(log) as n: log.append(n)
with cm(log): raise KeyError('k')
return log
---
return Concrete().f(), isinstance(Concrete(), Abstract)
---
try:
    Abstract()
except TypeError as e: return str(e)
---
w = WithMeta(3); return w.n, w.made, isinstance(3, WithMeta), isinstance(w, WithMeta), isinstance(4, WithMeta), len(WithMeta)
---
h = HasDesc(); a = h.d; h.d = 4; return a, h.d, h.cp, h.cp is h.cp, vars(h), isinstance(HasDesc.d, Desc)
---
o = Getattribute(); return o.a, o.zz, hasattr(o, 'q')
---
return isinstance(Concrete(), Proto2), isinstance(3, Proto2)
---
t = TD(a=1); n = NT(1); return t, n, n.s(), n._replace(a=5), NT(*[1, 2]), NT._fields
---
return TupSub(1, 2), type(TupSub(1)), TupSub(3)[0], len(TupSub(1, 2))
---
o = ODSub(a=1); o['b'] = x; return o, o.extra, list(o), o.copy(), type(o.copy())
---
s1 = SetSub([1]); s1.add(2); return s1, s1 | {3}, type(s1 | {3})
---
return TO(1) <= TO(2), TO(1) > TO(2), max(TO(1), TO(5)).n, sorted([TO(3), TO(1)])[0].n
---
return decorated(1), decorated.__name__, decorated.__doc__, decorated.__wrapped__(1)
---
log.debug('x %s', 1); log.info('y'); return log.isEnabledFor(10)
---
return WR() is torch
---
with Ctx() as c: pass
with contextlib.nullcontext(5) as n: pass
with contextlib.suppress(KeyError): {}['a']
return n, type(c).__name__
---
log=[]
with contextlib.ExitStack() as st:
    st.callback(log.append, 1)
    st.enter_context(cm(log))
    log.append('body')
return log
---
p = Prop(); p.v = 3; a = p.v; del p.v; return a, p.v
---
return list(Iter(3)), [i for i in Iter(2)], sum(Iter(4)), max(Iter(3)), dict(zip(Iter(2), 'ab'))
---
q = Seq(1, 2, 3); return list(q), 2 in q, q.index(2), q.count(1), list(reversed(q)), len(q), isinstance(q, collections.abc.Sequence)
---
m = MM(); m['a'] = 1; m.update(b=2); return m.pop('a'), dict(m), m.get('z', 0), 'b' in m, list(m.items()), m.setdefault('q', 3)
---
u = UD(a=1); u['b'] = x; return u.data, 'a' in u, len(u), dict(u)
---
return itemg([5, 6, 7]), attrg(x), PART(3), GL, inspect.signature(decorated).parameters['a'].name, inspect.isfunction(decorated), inspect.ismethod(Base().who)
---
return bisect.bisect_left([1, 3, 5], 3), bisect.bisect([1, 3], 3), typing.cast(int, 3), isinstance(3, numbers.Number), os.path.join('a', 'b'), string.ascii_lowercase
---
return sys.version_info >= (3, 8), sys.version_info.major, sys.platform, sys.maxsize > 1, sys.version_info[:2]
---
h = []; heapq.heappush(h, 3); heapq.heappush(h, 1); return heapq.heappop(h), h
---
return os.environ.get('NOPE_X', 'd'), os.getenv('NOPE_X'), 'HOME' in os.environ
---
f = lambda *a, k=1, **kw: (a, k, kw); return f(1, *xs, k=2, **d), (lambda: (yield))().__class__.__name__
---
def rec(n): return 1 if n == 0 else n * rec(n - 1)
def fib(n, memo={}):
    if n < 2: return n
    if n not in memo: memo[n] = fib(n - 1) + fib(n - 2)
    return memo[n]
return rec(5), fib(20)
---
out = {}
for k, v in sorted(d.items(), key=lambda kv: kv[1], reverse=True): out.setdefault(v % 2, []).append(k)
return out
---
a, (b, *c), e = 1, (2, 3, 4), 5
(p, q), r = [(1, 2), 3]
return a, b, c, e, p, q, r
---
xs[0], xs[1] = xs[1], xs[0]
d['a'], xs[2] = xs[2], d['a']
return xs, d
---
v = [[1, 2], [3]]; v[0][1] += 10; v[1] += [5]; d['a'] += 1; d['b'] -= x; return v, d
---
return [*{**d}], {*xs, *s}, (*d,), [y for y in (lambda: xs)()], {**{'a': 1}, 'a': 2}
---
s2 = sorted(xs, key=lambda v: (-v, v)); s3 = sorted(d, key=d.get); s4 = max(d, key=d.get); return s2, s3, s4
---
return [x for x in [1, 2] if (y := x * 2) > 2], (n := len(xs)), n
---
return print is print, len is len, type(len).__name__, len.__name__, max.__qualname__, str.join.__name__, [].append.__name__
---
m = xs.append; m(4); n = 'ab'.upper; f = d.get; return xs, n(), f('a'), list(map(d.get, 'ab')), list(map(str.upper, 'ab'))
---
return all(isinstance(v, int) for v in xs), any(map(lambda v: v > 2, xs)), not any(v is None for v in (x, xs)), None in [1, x is None]
---
e1 = ValueError('m', x); e1.extra = 1; return e1.args[0], e1.extra, isinstance(e1, Exception), str(KeyError('a')), repr(StopIteration(3).value)
---
try:
    raise ValueError from KeyError('c')
except ValueError as e: r = (type(e.__cause__).__name__, e.args)
try:
    try: raise KeyError(1)
    finally: xs.append(9)
except KeyError: pass
for i in range(3):
    try:
        if i == 1: continue
        if i == 2: break
    finally: xs.append(i)
return r, xs
---
def g():
    try:
        yield 1
        yield 2
    finally: xs.append('closed')
it = g(); next(it); it.close()
for v in g():
    break
return xs[:4]
---
gen = (v * 2 for v in xs if v > 1); a = next(gen); return a, list(gen), list(gen)
---
def g():
    x1 = yield
    while True: x1 = yield x1 + 1
c = g(); next(c); return c.send(1), c.send(x), type(c).__name__
---
def tree(n):
    if n:
        yield from tree(n - 1)
        yield n
        yield from tree(n - 1)
return list(tree(3))
---
return hash('a') == hash('a'), hash(3), hash(1.5), hash((1, 2)), hash(Color.RED) == hash(Color.RED), hash(None) == hash(None), hash(len) == hash(len)
---
return Color.RED != Color.BLUE, Color.RED is Color(1), Color.RED in [Color.RED], {Color.RED: 'x'}[Color(1)], str(Color.RED), f'{Level.LOW}', Level(5), list(Level), Level.__members__['LOW'], Color.RED._value_
---
match (1, [2, x]):
    case (1, [n, t]): out = [n, t]
match Color.RED:
    case Color.BLUE: out.append('blue')
    case Color.RED: out.append('red')
match 'abc':
    case str() as q if q.startswith('a'): out.append(q)
match {'k': 1, 'z': {'y': 2}}:
    case {'z': {'y': w}}: out.append(w)
match 3:
    case 1 | 2 | 3: out.append('num')
match None:
    case None: out.append('none')
return out
---
return x.shape[0] if x.ndim == 1 else 0, x.dim(), x.size(0), x.dtype is torch.float32, x.dtype.is_floating_point, x.device.type, str(x.dtype).split('.')[-1], x.is_cuda
---
class_ = type(x); return class_ is torch.Tensor, class_.__name__, isinstance(class_, type), Base.k, Derived.k, Base.make.__name__
---
o = Base(); o.f = lambda: 5; o.xs = xs; o.xs.append(1); o.k += 1; return o.f(), o.xs is xs, o.k, Base.k, 'k' in o.__dict__
---
return Vec(1, 2) == Vec(1, 2), Vec(1) in {Vec(1)}, list(enumerate(Vec(5, 6), 1)), [*map(lambda a: a, Vec(3))], tuple(Vec(1)), sorted(Vec(3, 1))
---
c = complex(1, 2); return c.real, c.imag, c.conjugate(), abs(c), c * 2
---
return xs.index(2), [i for i, v in enumerate(xs) if v == 2], xs[-2:], xs[::2], xs[slice(1, 3)], slice(1, 5, 2).indices(4), slice(None).start
---
return '{:.2f}'.format(1.234), '{0}{1}{0}'.format('a', 'b'), '{:,}'.format(1234567), '{!r}'.format('q'), '%05.2f|%-5s|%x' % (3.14159, 'ab', 255), f"{3.0:g} {1e10:e} {5:b} {'x':^5}|{xs}|{d['a']}|{x.shape[0]=}"
---
c = Cfg(a=1); return c.a, c.missing, hasattr(c, 'zz'), getattr(c, 'q', 3)
---
r = Reg(a=1); r.b = x; return r.a, r['b'], r, hasattr(r, 'zz')
---
y = x
for l in mod.ls: y = l(y)
for i, l in enumerate(mod.ls[1:]): y = y + l(y) * i
return mod.ls[-1](y), len(mod.ls), mod.dct['a'](y), list(mod.dct.keys()), 'a' in mod.dct, mod.seq[0](y), mod.seq(y), len(mod.seq), mod.seq[-1] is mod.seq[2]
---
y = x
for n, l in mod.dct.items(): y = l(y)
for p in mod.pl: y = y * p
return y + mod.pl[0] + mod.pd['p'] + mod.buf, len(mod.pl), [n for n, _ in mod.named_children()], mod.cfg.n, mod.cfg.act
---
return [n for n, p in mod.named_parameters()], sum(p.numel() for p in mod.parameters()), [type(m).__name__ for m in mod.modules()], mod.training, [n for n, b in mod.named_buffers()]
---
mod.xs.append(len(mod.xs)); n = mod.xs.pop(); return n, mod.xs[0]
---
mod.tmp = x * 2; y = mod.tmp; del mod.tmp; return y, hasattr(mod, 'tmp'), hasattr(mod, 'ls'), mod.ls[0].weight.shape, mod.ls[0].in_features
---
p = PropClass(); return p.cachedm(1), p.pm(6), p.sd(1), p.sd('a')
---
l = LazyD(a=1); return l['a'], l.get('a'), dict(l), {**l}, list(l.values())
---
c = CallLog(); c(1, k=2); c(); return c.calls, list(map(c, xs)), sorted(xs, key=c)
---
o = Op(5); o -= 2; a = o - Op(1); b = 10 - o; return o.v, a.v, b.v, (-o).v, abs(o), ~o, round(o), round(o, 2), math.floor(o), int(o), o @ 1, o[1:2, ...], divmod(o, 2), o ** 2, list(reversed(o))
---
o = Op(1); o['k'] = 3; a = o.v; del o['z']; return a, o.v, o == o, o != 3, Op(1) == Op(1)
---
return Sub1 is Sub1, CELL(), GEN[1], D1().m(), [c.__name__ for c in D1.__mro__], D1.__bases__[0] is B1, D1.__qualname__, D1.__module__ is not None
---
return kwonly(a=1), defaults(1)[-1:], Counting()[1], list(Counting()), 20 in Counting(), len(Counting()), list(reversed(Counting())), list(zip(Counting(), 'ab'))
---
return DC(1), DC(1, w=3).z, dataclasses.replace(DC(1), x=2, w=1), SDC(3), SDC() == SDC(), KDC(a=1), hash(KDC(a=1)) == hash(KDC(a=1)), dataclasses.asdict(DC(1))
---
return Auto.ONE.value, Auto.TWO.m(), Auto.first() is Auto.ONE, Auto('one').name, ES.K == 'k', f'{ES.K}', str(ES.K), ES.K + 'z', {ES.K: 1}['k'], ES('k') is ES.K
---
a = [1]; b = a; b += [2]; t = (a,); a.append(x); return a, b is a, t[0] is a, [a, a]
---
a = []; a.append(a); return len(a), a[0] is a
---
d2 = dict(d); d2['self'] = d2; return d2['self']['a'], len(d2)
---
z = [*map(lambda p: p[0] + p[1], zip(xs, xs[1:]))]; w = list(itertools.chain(*[[1], [2]])); q = dict(map(reversed, d.items())); return z, w, q
---
return str(xs), str(tuple(xs)), str(d), str(s), repr('a\'b'), f'{xs[0]:{xs[1]}}', f'{"nested " + f"{xs}"}', f'{x.shape[0]!s:>5}', '%s-%s' % (xs, d), 'a' 'b', 'x' * 3
---
return 'a b c'.split(), 'a.b.c'.rsplit('.', 1), 'abc'.find('c'), 'aXbX'.count('X'), 'abc'.zfill(5), 'abc'.center(7, '*'), '\n'.join(['a']), 'ab'.isalpha(), '12'.isdigit(), 'a'.encode('utf-8'), 'a-b_c'.translate(str.maketrans('-_', '  '))
---
name = 'layer.0.weight'; parts = name.split('.'); return parts[-1], name.rsplit('.', 1)[0], name.startswith('layer'), int(parts[1]) + 1, '.'.join(parts[:-1]), name.removeprefix('layer.'), name[6], len(name), name in {'layer.0.weight': 1}
---
return min(xs, default=0), max([], default=None), min('b', 'a'), max(d, key=d.__getitem__), sum([[1], [2]], []), sum(x for _ in range(2)), sorted(['b', 'A'], key=str.lower), sorted(d.items(), key=operator.itemgetter(1), reverse=True)
---
return list(filter(lambda v: v, [0, 1, None])), list(filter(None, xs)), [*filter(str.isalpha, 'a1')], tuple(map(len, ['a', 'bb'])), list(map(int, '12')), list(map(float, xs)), set(map(type, xs)) == {int}
---
return functools.reduce(lambda a, b: a + b, [[1], [2]]), functools.reduce(torch.add, [x, x, x]), functools.reduce(operator.mul, (1, 2, 3), 1), list(itertools.accumulate(xs, lambda a, b: a * b)), math.prod(x.shape), functools.partial(torch.mul, x)(2)
---
it = iter(d.items()); k, v = next(it); rest = dict(it); i2 = iter('abc'); return k, v, rest, list(zip(i2, i2)), next(i2, None)
---
f = lambda n: n if n < 2 else f(n - 1) + f(n - 2); return f(10), (lambda *a: a)(*xs), (lambda **k: k)(**d), (lambda a, b=x: (a, b))(1)
---
def outer(a):
    b = [a]
    def mid():
        c = 3
        def inner():
            nonlocal a, c
            a += 1; c += 1; b.append(a)
            return a + c
        return inner(), inner()
    return mid(), a, b
return outer(1)
---
fs = [lambda: i for i in range(3)]; gs = [lambda i=i: i for i in range(3)]; return [f() for f in fs], [g2() for g2 in gs]
---
def deco2(n):
    def d3(fn):
        @functools.wraps(fn)
        def w(*a): return fn(*a) * n
        w.extra = n
        return w
    return d3
@deco2(3)
def ff(a): return a
return ff(x), ff.extra, ff.__name__
---
def ff(a): return a
ff.attr = 5; ff.attr += 1; return ff.attr, hasattr(ff, 'nope'), ff.__name__, ff.__defaults__, ff.__dict__
---
try:
    try: raise ValueError(1)
    except ValueError as e: raise TypeError(2)
except TypeError as e2: return type(e2.__context__).__name__, e2.args
---
def cleanup():
    for i in range(3):
        try:
            if i == 0: continue
            return i
        finally: xs.append(i)
return cleanup(), xs
---
try: raise KeyError('a')
except (ValueError, KeyError) as e: er = e
return er.args, str(er), isinstance(er, LookupError)
---
def gen():
    try:
        while True:
            v = yield
            xs.append(v)
    except GeneratorExit: xs.append('exit'); raise
g3 = gen(); next(g3); g3.send(1); g3.send(x); g3.close(); return xs
---
def inner():
    try: yield 1
    except KeyError: yield 'caught'
    return 'ret'
def outer2():
    r = yield from inner()
    yield r
g4 = outer2(); next(g4); return g4.throw(KeyError('k')), next(g4), next(g4, 'end')
---
def ping():
    yield from [1, 2]
    yield from (v for v in 'ab')
    yield from range(2)
    yield from {'k': 1}
return list(ping())
---
b = True; b &= False; c = 5; c //= 2; c **= 3; c %= 5; c <<= 2; c |= 1; c ^= 3; c >>= 1; return b, c, -c, +c, ~c, not c
---
return 1 < 2 < 3, 1 == 1.0 == True, [] or 'e', {} and 1, None is None, xs is not None, 'a' < 'b', (1, 'a') < (1, 'b'), [1, [2]] == [1, [2]], 3 != 3, 5 in range(10), 5.0 in range(10), x is x
---
a, b = 1, 2; a, b = b, a; [c, e] = [3, 4]; (f, *_), g5 = (1, 2, 3), 4; h = i = []; h.append(1); return a, b, c, e, f, _, g5, i
---
return {**d, **{'z': x}}, [*xs, *s], {*xs}, dict(a=1, **{'q': 2}), (lambda a, *r, k, **kw: (a, r, k, kw))(1, 2, k=3, z=4), print if False else None
---
return [[i * j for j in range(2)] for i in range(3)], {i: {j for j in range(i)} for i in range(3)}, sum(1 for _ in xs), [v for w in [[1], [2, 3]] for v in w], {v: k for k, v in d.items()}, list((a, b) for a in 'ab' for b in 'cd' if a != b)
---
return type(d.keys()).__name__, isinstance(d.keys(), collections.abc.KeysView), isinstance(d, dict), isinstance(iter(xs), collections.abc.Iterator), isinstance((v for v in xs), types.GeneratorType), isinstance(len, types.BuiltinFunctionType), isinstance(lambda: 0, types.FunctionType), isinstance(x.shape, tuple), isinstance(x.shape, torch.Size)
---
dq = deque([1, 2], maxlen=2); dq.append(3); c = Counter([1, 1, 2]); c.subtract([1]); od = OrderedDict([('a', 1)]); od.update(b=2); dd = defaultdict(int); dd['q'] += 1; dd2 = defaultdict(lambda: defaultdict(list)); dd2['a']['b'].append(1); return dq, c, od == {'a': 1, 'b': 2}, dd, dd2['a']['b'], list(reversed(od)), c.most_common(), list(c.elements()), c - Counter([2]), c | Counter([5])
---
xs.append(x); xs[0] += 5; d.update({'new': [x]}); d['new'].append(1); s.add('q'); del d['a']; return len(xs)
---
for k in sorted(d): d[k] = (d[k], x + 1)
while len(xs) > 1: xs.pop()
s.clear(); s.update('ab')
return None
---
d.clear(); d['b'] = 1; d['a'] = 2; xs.clear(); xs += [x, 1]; s &= {2, 3}; return d, xs, s
---
n = 0
for i in range(100):
    if i % 7: continue
    n += i
    if n > 100: break
else: n = -1
return n * x
---
return Base.make(), Base().make().who(), Base.st(3), Derived.prop.fget(Base()), Base.who.__name__, Base.__dict__.keys() >= {'k'}, Derived.__bases__ == (Base,), Base.prop is Base.__dict__['prop']
---
return float('nan') != float('nan'), math.isclose(0.1 + 0.2, 0.3), round(2.5), round(-1.567, 1), 10 ** -2, 7 % -3, -7 // 2, int('0x1f', 16), 0b101, 1e3, float('1e-3'), int(1e3), 5 .__add__(3), (3).__class__.__name__, True + True, divmod(-7, 3), max(float('inf'), 1), hex(255)[2:]
---
ms = [getattr(xs, n) for n in ('pop', 'copy')]; return ms[0](), ms[1](), list.pop(xs), dict.get(d, 'a'), str.upper('a')
"""

PROGRAMS_OF_ODD_OBJECTS = r"""
return Gen(3).get(), Gen[int](4).get(), isinstance(Gen(1), Gen), list[int](), dict[str, int](a=1), typing.List
---
return lt.v, tl.z, hasattr(tl, 'nope')
---
t = Node(1, [Node(2, [Node(3)]), Node(4)]); return [n.v for n in t.walk()], [k.v for k in t], sum(n.v for n in t.walk()) * x
---
st = Stack(); st.push(1).push(x); return st.top, len(st), st, st[0], [*st], st + [2], st == [1], Stack([3]).pop()
---
c = CaseDict(); c['a'] = 1; c.update(b=2); return c, 'a' in c, 'B' in c, 'b' in c, c.get('A')
---
return FrozenSet2([1]), FrozenSet2([1]) | {2}, 1 in FrozenSet2([1])
---
return WM.anything, WM['k'], list(WM), 1 in WM, WM.mp, hasattr(WM, 'q'), isinstance(WM, type), type(WM) is Meta2
---
return InitSub.reg, Singleton(1, 2).args, Singleton._i
---
c = Chain(); c.a.b.c; return c.p
---
try:
    bool(NotBool())
except ValueError as e: return str(e)
---
return [Cmp(1)] == [Cmp(1)], Cmp(1) in [Cmp(2), Cmp(1)], bool(Cmp(0)), not LenOnly(), bool(LenOnly()), [1] if LenOnly() else [2]
---
return str(StrOnly()), f'{StrOnly()}', '%s' % StrOnly(), repr(ReprRec())
---
u = OpList([1]); u.append(2); u += [3]; return list(u), u[0], len(u), u.data, u + [4]
---
return copy.copy(GetSetState()).a, copy.deepcopy(GetSetState()).a, copy.deepcopy({'k': [GetSetState()]})['k'][0].a
---
try:
    with ExitRaise(): raise ValueError('body')
except KeyError as e: return str(e), repr(e.__cause__), repr(e.__context__)
---
with Suppress(ValueError) as q, swallow(): raise ValueError
with swallow(): xs.append(5); raise ValueError('z')
try:
    with reraise() as r: raise ValueError(r)
except KeyError as e: return str(e), repr(e.__cause__), xs
---
try: raise ExcWithArgs(1, b=5)
except ExcWithArgs as e: return str(e), e.args, e.a, e.b, repr(e)
---
o = Slotted(); o.x = 1; o.y = 2; ss = SlotSub(); return o.x, o.y, o.__dict__, ss.a, ss.c, hasattr(ss, 'b')
---
l = LazyAttr(); return l.ab, l.ab, vars(l)
---
return varkw(1, 2, 3, c=4, e=5), varkw(*[1], **{'c': 2}), annotated.__annotations__, annotated.__code__.co_varnames, annotated.__defaults__, annotated.__code__.co_argcount
---
return decimal.Decimal('1.5') + 1
---
return fractions.Fraction(1, 3) + 1
---
return datetime.timedelta(days=1).days
---
p = pathlib.PurePosixPath('a') / 'b'; return str(p), p.name, p.suffix
---
return json.dumps({'a': 1}), json.loads('[1]')
---
return [f.__name__ for f in (len, annotated)], (lambda: 1).__name__, Base.who.__qualname__, Base().who.__func__ is Base.who, Base().who.__self__.k
---
a = b = [1]; a += [2]; c = a; c = c + [3]; return a, b, c, a is b, c is a
---
def f1(n, acc=None):
    acc = [] if acc is None else acc
    acc.append(n)
    return f1(n - 1, acc) if n else acc
return f1(3)
---
def make():
    cache = {}
    def get(k):
        if k not in cache: cache[k] = len(cache)
        return cache[k]
    return get
gt = make(); return gt('a'), gt('b'), gt('a')
"""


@pytest.mark.parametrize("body", [pytest.param(b.strip("\n"), id=str(i)) for i, b in enumerate(PROGRAMS_OF_OBJECTS.split("\n---\n"))])
def test_object_program(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(body, vars(objects), monkeypatch)


@pytest.mark.parametrize("body", [pytest.param(b.strip("\n"), id=str(i)) for i, b in enumerate(PROGRAMS_OF_ODD_OBJECTS.split("\n---\n"))])
def test_odd_object_program(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(body, vars(odd_objects), monkeypatch)
