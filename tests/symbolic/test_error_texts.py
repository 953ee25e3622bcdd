"""Misuse of builtins, operators, calls and statements: the exceptions of traced code have CPython's types and texts."""

# a program reads best as one line

from __future__ import annotations

import textwrap

import pytest

from tests.symbolic import odd_objects
from tests.symbolic.running import check

EXPRESSIONS = r"""
lambda: [][0]
lambda: {}['q']
lambda: None + 1
lambda: undefined_name
lambda: int('x')
lambda: (1).foo
lambda a: a
lambda: 'a'[5]
lambda: [1, 2, 3].index(9)
lambda: (1,).index(9)
lambda: 'abc'.index('z')
lambda: set().pop()
lambda: {}.popitem()
lambda: [].remove(1)
lambda: iter(5)
lambda: next(5)
lambda: len(5)
lambda: 5()
lambda: 5[0]
lambda: hash([])
lambda: {[]: 1}
lambda: sum(['a'])
lambda: sorted([1, None])
lambda: min()
lambda: max(1)
lambda: 'a' * 'b'
lambda: [1] * 1.5
lambda: -'a'
lambda: 1 < 'a'
lambda: 1 in 5
lambda: [1][1:2:0]
lambda: range(1, 2, 0)
lambda: chr(-1)
lambda: ord('ab')
lambda: dict([1])
lambda: dict([(1, 2, 3)])
lambda: zip(5)
lambda: list(map(5, [1]))
lambda: enumerate(5)
lambda: isinstance(1, 'a')
lambda: issubclass(1, int)
lambda: getattr(1, 2)
lambda: setattr(1, 'a', 2)
lambda: delattr(Base(), 'zz')
lambda: super(Base, 1)
lambda: Base(1)
lambda: Derived().zz
lambda: Base.zz
lambda: round('a')
lambda: abs('a')
lambda: divmod(1, 0)
lambda: pow(0, -1)
lambda: 1 // 0
lambda: 1 % 0
lambda: 1.0 / 0
lambda: 2 << -1
lambda: math.sqrt(-1)
lambda: float('x')
lambda: complex('x')
lambda: '{}'.format()
lambda: '{a}'.format()
lambda: '%d' % 'a'
lambda: '%s %s' % (1,)
lambda: 'a'.join([1])
lambda: ''.join(5)
lambda: bytes('a')
lambda: reversed({1})
lambda: reversed(5)
lambda: deque([1]).index(2)
lambda: deque().popleft()
lambda: deque(maxlen=-1)
lambda: OrderedDict().popitem()
lambda: OrderedDict().move_to_end('a')
lambda: Point()
lambda: Point(1, 2, 3)
lambda: Point(1)._replace(z=1)
lambda: Frozen()
lambda: Color(9)
lambda: Color['q']
lambda: Color.ZZ
lambda: [].append()
lambda: [].append(1, 2)
lambda: {}.get()
lambda: 'a'.upper(1)
lambda: len()
lambda: len(1, 2)
lambda: isinstance(1)
lambda: sorted()
lambda: sorted([1], foo=1)
lambda: print_undefined
lambda: functools.partial()
lambda: operator.itemgetter(5)([1])
lambda: operator.attrgetter('q')(1)
lambda: itertools.islice([1], -1)
lambda: next(itertools.chain([]))
lambda: varkw(1)
lambda: varkw()
lambda: annotated(1, 2, 3)
lambda: annotated(c=1)
lambda: annotated(1, a=2)
"""

STATEMENTS = r"""
def unpack1(): a, b = 1
---
def unpack2(): a, b = [1, 2, 3]
---
def unpack3(): a, *b, c = [1]
---
def unpack4(): a, b = {}
---
def unb(): return zz; zz = 1
---
def dele(): q = 1; del q; return q
---
def noraise(): raise
---
def badraise(): raise 5
---
def badfrom(): raise ValueError from 5
---
def badexc():
    try: raise ValueError
    except 5: pass
---
def ctx():
    with 5: pass
---
def kwdup(): return annotated(**{'a': 1}, **{'a': 2})
---
def kwstr(): return annotated(**{1: 1})
---
def starit(): return annotated(*5)
---
def star2(): return annotated(**5)
---
def attr(): None.x = 1
---
def attr2(): (1).x = 1
---
def item(): (1,)[0] = 2
---
def item2(): 'abc'[0] = 'x'
---
def item3(): del (1,)[0]
---
def item4(): [1][5] = 2
---
def item5(): [1]['a'] = 2
---
def slc(): q = [1, 2, 3]; q[::2] = [1]
---
def slc2(): q = [1]; q[0:1] = 5
---
def assrt(): assert False
---
def assrt2(): assert [], ('t', 1)
---
def genret():
    def g6(): yield 1; return 5
    it = g6(); next(it); next(it)
---
def genstop():
    def g7(): yield next(iter([]))
    return list(g7())
---
def gensend():
    def g8(): yield 1
    g8().send(1)
---
def dictchg():
    q = {1: 1}
    for k in q: q[2] = 2
---
def setchg(): return {}[{}]
---
def keyerr(): raise KeyError('a', 'b')
---
def chained():
    try: raise ValueError(1)
    except ValueError: raise KeyError(2)
---
def matchcls():
    match Point(1):
        case Point(1, 2, 3): pass
---
def matchcls2():
    match 5:
        case int(1, 2): pass
---
def boolnot(): return not NotBool()
---
def superbad(): return super().x
---
def nonit():
    for q in 5: pass
---
def comp(): return [q for q in None]
---
def inst(): return isinstance(1, list[int])
---
def fmt(): return f"{'a':d}"
---
def fmt2(): return f"{[]:5}"
---
def fmt3(): return f"{FmtErr()}"
"""

_TRY = """
try: return call()
except Exception as e: return type(e).__name__, str(e)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_expression(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(f"call = {expression}{_TRY}", vars(odd_objects), monkeypatch)


@pytest.mark.parametrize("statement", STATEMENTS.strip().split("\n---\n"), ids=lambda text: text.partition("(")[0].removeprefix("def "))
def test_statement(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = statement.partition("(")[0].removeprefix("def ")
    check(f"{textwrap.dedent(statement)}\ncall = {name}{_TRY}", vars(odd_objects), monkeypatch)
