"""Values that a function makes, as they are behind a graph break, in a closure, and returned: their type, identity and state."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

import pytest
import torch

import dynamo
from dynamo import internal_errors

WORLD = """
import abc, array, collections, contextlib, contextvars, dataclasses, datetime, decimal, enum, fractions, functools, inspect, io, itertools
import math, numbers, operator, os, pathlib, random, re, string, sys, threading, types, typing, uuid, weakref
import numpy as np, torch, torch.nn as nn, torch.nn.functional as F
P = collections.namedtuple("P", "u v", defaults=(1,))
@dataclasses.dataclass
class DC:
    n: int = 1
    l: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True, slots=True)
class FD:
    n: int = 1
class E(enum.Enum): X = 1
class Fl(enum.IntFlag): M = 1; N = 2
class A:
    k = 1
    def __init__(self, v=0): self.v = v
    def m(self, *a): return self.v, a
    @classmethod
    def c(cls): return cls.__name__
    @property
    def p(self): return self.v
class B(A):
    def m(self): return super().m()
class LS(list): pass
class DS(dict):
    def __missing__(self, k): return k
class TS(tuple): pass
class SS(str): pass
class IS(int): pass
class S: __slots__ = ("p", "q")
def h(x, k=1, *, m=2): return x, k, m
def gen(n):
    got = []
    for i in range(n): got.append((yield i))
    return got
class CM:
    def __enter__(self): return 1
    def __exit__(self, *a): return False
class It:
    def __init__(self): self.n = 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 3: raise StopIteration
        return self.n
def adv(it, n=1):
    for _ in range(n): next(it, None)
    return it
def cellfn(v):
    def f(): return v
    def s(n):
        nonlocal v; v = n
    return f, s
def counted(fn):
    @functools.wraps(fn)
    def inner(*a):
        inner.count = getattr(inner, "count", 0) + 1
        return fn(*a)
    return inner
def mutual():
    fs = {}
    def even(n): return True if n == 0 else fs["odd"](n - 1)
    def odd(n): return False if n == 0 else even(n - 1)
    fs.update(odd=odd, even=even)
    return fs
def kept_error():
    try:
        try: 1 / 0
        except ZeroDivisionError as e: raise KeyError("k") from e
    except KeyError as e:
        e.add_note("n")
        return e
def circle():
    a = A()
    a.me, a.l, a.f, a.p_ = a, [a], lambda: a, functools.partial(lambda q: q, a)
    return a
"""
# What makes a value, and what is asked of it later.
VALUES = r"""
zip([1,2],[3,4]) ;; list(v)
adv(zip([1,2,3],"abc")) ;; list(v)
enumerate("ab",5) ;; list(v)
adv(enumerate([1,2,3])) ;; next(v),list(v)
map(lambda q:q*2,[1,2]) ;; list(v)
adv(map(str,[1,2,3])) ;; list(v)
filter(None,[0,1,2]) ;; list(v)
adv(filter(lambda q:q>1,[1,2,3])) ;; list(v)
reversed([1,2,3]) ;; list(v)
adv(reversed([1,2,3])) ;; v.__length_hint__(),list(v)
iter([1,2,3]) ;; v.__length_hint__(),list(v)
adv(iter((1,2,3))) ;; list(v)
adv(iter({1:2,3:4})) ;; list(v)
adv(iter({1:2,3:4}.items())) ;; list(v)
iter("abc") ;; list(v)
adv(iter(range(5)),2) ;; list(v)
iter(It()) ;; list(v)
adv(It()) ;; list(v),v.n
iter(lambda: 1,1) ;; list(v)
itertools.count(3,2) ;; next(v),next(v)
adv(itertools.count(1)) ;; next(v)
itertools.cycle([1,2]) ;; next(v),next(v),next(v)
adv(itertools.cycle([1,2,3]),4) ;; next(v),next(v)
itertools.repeat(1,3) ;; list(v)
adv(itertools.chain([1,2],[3])) ;; list(v)
adv(itertools.islice([1,2,3,4],1,4)) ;; list(v)
itertools.tee([1,2,3]) ;; [list(q) for q in v]
adv(itertools.accumulate([1,2,3])) ;; list(v)
adv(itertools.takewhile(lambda q:q<3,[1,2,3,1])) ;; list(v)
adv(itertools.dropwhile(lambda q:q<2,[1,2,3,1])) ;; list(v)
adv(itertools.starmap(pow,[(2,2),(3,2)])) ;; list(v)
adv(itertools.product([1,2],[3,4])) ;; list(v)
adv(itertools.permutations([1,2,3],2)) ;; list(v)
adv(itertools.combinations([1,2,3],2)) ;; list(v)
adv(itertools.zip_longest([1],[2,3],fillvalue=9)) ;; list(v)
adv(itertools.groupby([1,1,2])) ;; [(k,list(g)) for k,g in v]
adv(itertools.pairwise([1,2,3])) ;; list(v)
adv(itertools.compress("abc",[1,0,1])) ;; list(v)
gen(3) ;; list(v)
adv(gen(3)) ;; list(v),v.gi_frame is None
(q*2 for q in [1,2,3]) ;; list(v)
{1:2}.keys() ;; list(v),1 in v
{1:2}.items() ;; list(v)
range(1,9,3) ;; list(v),v.step
slice(1,None,2) ;; [1,2,3,4][v],v.indices(3)
[].append ;; v(1),v.__self__
"a,b".split ;; v(",")
{}.get ;; v(1,2)
A(3).m ;; v(1),v.__self__.v,v.__func__.__name__
A.c ;; v()
B(2).m ;; v()
super(B,B(4)) ;; v.m(1),v.__thisclass__.__name__
functools.partial(h,1,m=5) ;; v(k=2),v.args,v.keywords,v.func.__name__
functools.partial(functools.partial(h,1),k=3) ;; v(),v.args
functools.partialmethod(h,1) ;; v.args
property(A.m,doc="d") ;; v.fget.__name__,v.__doc__
staticmethod(h) ;; v.__func__.__name__,v(1)
classmethod(h) ;; v.__func__.__name__
types.MappingProxyType({"a":1}) ;; dict(v)
types.SimpleNamespace(a=1) ;; v.a,vars(v)
P(1) ;; v.u,v._asdict()
DC() ;; v.n,v.l,v==DC()
FD(2) ;; v.n,hash(v)==hash(FD(2))
E.X ;; v is E.X
Fl.M|Fl.N ;; v.name,int(v)
ValueError("a",1) ;; v.args
ExceptionGroup("g",[ValueError(1)]) ;; v.message,[type(q).__name__ for q in v.exceptions]
StopIteration(5) ;; v.value
kept_error() ;; v.args,repr(v.__cause__),v.__notes__,v.__traceback__.tb_frame.f_code.co_name,v.__suppress_context__
ImportError("m",name="n") ;; v.name
OSError(2,"x","f") ;; v.errno,v.filename,type(v).__name__
UnicodeDecodeError("u",b"ab",0,1,"r") ;; v.start,v.reason
re.compile("a(b)") ;; v.match("ab").group(1)
re.match("a(b)","ab") ;; v.group(1),v.span()
datetime.date(2020,1,2) ;; v.year,v.isoformat()
datetime.timedelta(days=1) ;; v*2
decimal.Decimal("1.5") ;; v*2
fractions.Fraction(1,3) ;; v+1
uuid.UUID(int=5) ;; v.int
pathlib.PurePosixPath("a")/"b" ;; v.name,str(v)
collections.Counter("aab") ;; v["a"],v.most_common(1),v["zz"]
collections.ChainMap({"a":1},{"b":2}) ;; v["b"],len(v.maps)
collections.UserDict(a=1) ;; v["a"],v.data
collections.UserList([1]) ;; v[0]
collections.deque([1,2],3) ;; list(v),v.maxlen
collections.defaultdict(list,{1:[2]}) ;; v[1],v[5],v.default_factory.__name__
collections.OrderedDict(a=1) ;; list(v.items())
LS([1]) ;; v,v[0]
DS(a=1) ;; v["q"],v["a"]
TS((1,2)) ;; v[1],len(v)
SS("a") ;; v+"b"
IS(3) ;; v+1
frozenset({1}) ;; 1 in v
{1,2} ;; sorted(v)
b"ab" ;; v[0]
bytearray(b"ab") ;; bytes(v)
memoryview(b"ab") ;; v[0],v.nbytes
array.array("i",[1,2]) ;; v.tolist()
... ;; v is ...
NotImplemented ;; v is NotImplemented
1j ;; v*v
float("nan") ;; v!=v
-0.0 ;; math.copysign(1,v)
10**30 ;; v+1
torch.Size([1,2]) ;; v.numel(),v+(3,)
torch.float16 ;; v.itemsize
torch.device("cpu") ;; v.type
torch.finfo(torch.half) ;; v.max
torch.Generator() ;; v.initial_seed()
torch.channels_last ;; v is torch.channels_last
nn.Parameter(torch.ones(2)) ;; v.requires_grad,type(v).__name__
nn.Linear(2,2,bias=False) ;; v.in_features,type(v).__name__
nn.Sequential(nn.ReLU()) ;; len(v),v(torch.ones(1))
torch.optim.SGD([nn.Parameter(torch.ones(1))],lr=.5) ;; v.param_groups[0]["lr"]
torch.ones(2).tolist ;; v()
torch.ones(2).add ;; v(1)
torch.ones(2).shape ;; v[0]
torch.distributions.Normal(0.,1.) ;; v.mean
torch.no_grad() ;; v.__class__.__name__
np.arange(3) ;; v.sum(),v.dtype.name
np.float32(2) ;; v*2,type(v).__name__
np.dtype("int8") ;; v.itemsize
random.Random(3) ;; v.random()
threading.Lock() ;; v.acquire(),v.release()
threading.local() ;; hasattr(v,"a")
io.StringIO("ab") ;; v.read(1),v.read()
contextlib.nullcontext(4) ;; v.__enter__()
contextlib.ExitStack() ;; v.__enter__() is v
CM() ;; v.__enter__()
contextvars.ContextVar("q",default=2) ;; v.get()
operator.itemgetter(0,1) ;; v("abc")
operator.attrgetter("k") ;; v(A)
operator.methodcaller("upper") ;; v("a")
functools.singledispatch(h) ;; v(1)
lambda a,b=2,*c,d=3,**e: (a,b,c,d,e) ;; v(1,d=4,z=5),v.__defaults__,v.__kwdefaults__
cellfn(1) ;; v[0](),v[1](5),v[0]()
weakref.ref(A) ;; v() is A
S() ;; hasattr(v,"p")
type("T",(A,),{"z":1}) ;; v.z,v.__name__,v().m()
typing.List[int] ;; v.__origin__.__name__
list[int] ;; v.__args__
int|str ;; isinstance(1,v)
string.Template("$a") ;; v.substitute(a=1)
inspect.signature(h) ;; list(v.parameters)
dict(a=[1],b=(2,{3:4})) ;; v["a"],v["b"][1][3]
[[1],[2]] ;; v[0].append(5),v
object() ;; type(v).__name__,hash(v)==hash(v)
(Ellipsis,None,True) ;; v
sys.modules ;; "os" in v
h.__code__ ;; v.co_name
A.__dict__ ;; v["k"]
A.m ;; v.__name__,v(A(1))
A.p ;; v.fget(A(7))
int.__add__ ;; v(1,2)
(1).__add__ ;; v(2)
str.join ;; v("-","ab")
len ;; v("ab")
math.sqrt ;; v(4)
F.relu ;; v(torch.ones(1)),v.__name__
torch.relu ;; v(torch.ones(1))
torch.ones ;; v(1)
counted(lambda q: q) ;; v(1),v.count,v.__closure__[1].cell_contents is v
mutual() ;; v['even'](4),v['odd'].__closure__[0].cell_contents is v['even']
circle() ;; v.me is v,v.l[0] is v,v.f() is v,v.p_() is v
[float('nan')]*2 ;; v[0] is v[1],v[0] in v
StopAsyncIteration(1) ;; v.args
SystemExit(3) ;; v.code
SyntaxError('m',('f',1,2,'t')) ;; v.filename,v.lineno
"""
FORMS = {
    "behind a break": "v = {value}; w = [v]; print(end=''); y = x * 2; print(end=''); return y, w[0] is v, type(v).__name__, ({ask})",
    "in one graph": "v = {value}; return x * 2, type(v).__name__, ({ask})",
    "in a closure": "v = {value}; g = lambda: v; print(end=''); u = g(); return x + 1, u is v, type(u).__name__, ({ask})",
    "in an object": "o = types.SimpleNamespace(v={value}); print(end=''); v = o.v; return x + 1, type(v).__name__, ({ask})",
    "returned": "return x * 2, {value}",
}


def _seen(value: Any) -> Any:
    """As plain data, without addresses."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, list | tuple):
        return type(value).__name__, [_seen(x) for x in value]
    if isinstance(value, dict):
        return type(value).__name__, [(_seen(k), _seen(x)) for k, x in value.items()]
    return type(value).__name__, re.sub("0x[0-9a-f]+", "", repr(value))


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "world", "exec", dont_inherit=True)


def _answers(form: str, value: str, ask: str, wrap: Callable[[Any], Any]) -> list[Any]:
    world: dict[str, Any] = {"__name__": "world"}
    exec(_compiled(WORLD), world)
    exec(f"def f():\n x = torch.ones(1); {FORMS[form].format(value=value, ask=ask)}", world)
    f, found = wrap(world["f"]), []
    for _ in range(2):
        try:
            result = f()
            if form == "returned":
                result = type(result[1]).__name__, eval(ask, {**world, "v": result[1]})
            found.append(_seen(result))
        except Exception as e:  # noqa: BLE001  # compared, whatever it is
            found.append((type(e).__name__, str(e)))
    return found


@pytest.mark.parametrize("form", FORMS)
def test_values(form: str) -> None:
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in VALUES.strip().splitlines():
            value, ask = line.split(" ;; ")
            expected = _answers(form, value, ask, lambda f: f)
            dynamo.reset()
            internal_errors.forget()
            found = _answers(form, value, ask, lambda f: dynamo.compile(f, backend="eager"))
            if found != expected or internal_errors.internal_errors():
                wrong.append(f"{value}: {found} instead of {expected}; {internal_errors.internal_errors()}")
    assert not wrong, "\n".join(wrong)
