"""What a program can read of its objects, read before and after each thing that can change them: no answer is that of the first call.

The change comes between two calls of the function that reads, or in the function, before the read or between two of them.

`READS` and `CHANGES` are by kind of object. Each read runs beside an operator, else there would be no graph, and in a world of its own.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

import pytest
import torch

import dynamo
from dynamo import config, internal_errors

WORLD = """
import torch, torch.nn as nn, torch.nn.functional as F, functools, collections, types, operator, enum, dataclasses
import typing, sys, weakref, copy, contextlib, math, abc, threading, contextvars, os, inspect, numbers, string
import itertools, decimal, random
import numpy as np
mod=types.ModuleType("zz"); mod.k=1; mod.f=lambda: 1
class Meta(type):
    mk=1
    @property
    def mp(c): return 1
    def mm(c): return 1
class Base:
    bk=1
    def go(self): return 1
    @classmethod
    def cm(cls): return cls.bk
    @staticmethod
    def st(): return 1
    @property
    def pr(self): return self.bk
class A(Base,metaclass=Meta):
    ak=1; tab={"x":1}; lst=[1]
    def __init__(self): self.i=1; self.nested={"q":[1,{"z":1}]}
    def __len__(self): return 2
class Other(Base):
    def go(self): return 55
a=A(); b=A()
class S: __slots__=("p","q")
s=S(); s.p=1
def h(x,k=1,*,m=1): return x+k+m+cell
cell=1
def mkc():
    cv=1
    def inner(): return cv
    def setc(v):
        nonlocal cv; cv=v
    return inner,setc
inner,setc=mkc()
h.attr=1
p=functools.partial(h,1,k=2)
bm=a.go
l=[1,2,[3]]; d={"a":1,"b":{"c":1}}; st={1,2}; dq=collections.deque([1,2],maxlen=4); od=collections.OrderedDict(a=1,b=2)
dd=collections.defaultdict(int,a=1); c=collections.Counter("aab"); cm=collections.ChainMap(d,{"z":1}); t=(1,[2])
class LS(list): pass
ls=LS([1]); ls.extra=1
class DS(dict): pass
ds=DS(a=1); ds.extra=1
class TS(tuple): pass
ts=TS((1,)); ts.extra=1
class SS(str): pass
ss=[SS("a")]
class IS(int): pass
isb=[IS(3)]
P=collections.namedtuple("P","u v",defaults=(1,))
h1=[P(1),range(3),slice(0,1),None,True,1.0,"s",b"b",torch.float32,
    torch.device("cpu"),torch.Size([1]),1j,..., int, frozenset({1}), bytearray(b"a"),
    np.float64(1.0), np.dtype("float32"), decimal.Decimal(1)]
class E(enum.Enum): X=1; Y=2
E.X.user=1
class Fl(enum.IntFlag): M=1; N=2
@dataclasses.dataclass
class DC: n:int=1; l:list=dataclasses.field(default_factory=list)
dc=DC()
ex=ValueError("a",1)
tl=threading.local(); tl.v=1
cvv=contextvars.ContextVar("cvv",default=1)
wr=weakref.ref(a); wd=weakref.WeakKeyDictionary({a:1}); wv=weakref.WeakValueDictionary({"k":a})
ig=operator.itemgetter("a"); ag=operator.attrgetter("i"); mc=operator.methodcaller("go")
calls=[0]
@functools.lru_cache
def cached(n): calls[0]+=1; return n+calls[0]
@functools.singledispatch
def sd(x): return 1
class I(abc.ABC): pass
@typing.runtime_checkable
class Pr(typing.Protocol):
    def late(self): ...
arr=np.array([1.,2.]);
lin=nn.Linear(2,2); nn.init.ones_(lin.weight); nn.init.ones_(lin.bias)
class Mod(nn.Module):
    def __init__(self):
        super().__init__()
        self.a=lin
        self.register_buffer("buf",torch.ones(2))
        self.k=1
        self.ml=nn.ModuleList([nn.ReLU()])
        self.pl=nn.ParameterList([torch.ones(1)])
        self.md=nn.ModuleDict({"r":nn.ReLU()})
        self.drop=nn.Dropout(0.0)
    def forward(self,x): return self.a(x)*self.k
net=Mod()
ten=[torch.ones(2)]; ten[0].user=1
ns=types.SimpleNamespace(v=1,w=[1])
class WithGA:
    def __init__(self): self.store={"u":1}
    def __getattr__(self,n):
        if n=="store": raise AttributeError
        try: return self.store[n]
        except KeyError: raise AttributeError(n)
ga=WithGA()
class Desc:
    def __get__(self,o,t=None): return self.v
    v=1
desc=Desc()
A.desc=desc
ud=collections.UserDict(a=1); ul=collections.UserList([1]); us=collections.UserString("a")
mpx=types.MappingProxyType(d)
gen=torch.Generator();
"""

# By kind, what is read; `;;` separates.
READS = {
    "modules": """
    mod.k ;; mod.f() ;; hasattr(mod,"late") ;; "k" in vars(mod) ;; len(vars(mod)) ;; dir(mod)[-1] ;; getattr(mod,"late",0)
    """,
    "classes": """
    Meta.mk ;; A.mk ;; A.mp ;; A.mm() ;; A.bk ;; A.ak ;; A.tab["x"] ;; A.lst[0] ;; len(A.lst) ;; a.i ;; a.nested["q"][1]["z"]
    len(a) ;; a.go() ;; a.cm() ;; a.st() ;; a.pr ;; A.cm() ;; A.go(a) ;; b.go() ;; super(A,a).go() ;; hasattr(a,"late")
    hasattr(A,"late") ;; getattr(a,"late",0) ;; sorted(a.__dict__) ;; len(vars(a)) ;; "i" in a.__dict__ ;; type(a).__name__
    A.__name__ ;; A.__bases__[0].__name__ ;; [k.__name__ for k in A.__mro__] ;; isinstance(a,Other) ;; isinstance(a,I)
    issubclass(A,I) ;; isinstance(a,Pr) ;; isinstance(a,collections.abc.Sequence) ;; isinstance(a,collections.abc.Sized)
    bool(a) ;; a==b ;; a is b ;; A.__dict__.get("ak") ;; "ak" in A.__dict__ ;; A.__doc__ ;; A.__module__ ;; A.__qualname__
    a.__class__.__name__ ;; a.__doc__ ;; callable(a) ;; A.__annotations__ if hasattr(A,"__annotations__") else 0
    len(Base.__subclasses__()) ;; a.desc ;; A.desc ;; sorted(A.__dict__)[0] ;; hash(a)==hash(b) ;; a.__init__.__name__
    inspect.isclass(A) ;; A.mro()[1].__name__ ;; object.__getattribute__(a,"i") ;; repr(A) ;; str(A) ;; f"{A}" ;; "%s" % A
    str([A]) ;; "{}".format(A) ;; "{!r}".format({1:A})
    """,
    "slots": """
    s.p ;; hasattr(s,"q") ;; getattr(s,"q",0) ;; S.__slots__
    """,
    "functions": """
    h(1) ;; h(1,m=0) ;; h.__defaults__ ;; h.__kwdefaults__ ;; h.__name__ ;; h.__doc__ ;; h.attr ;; hasattr(h,"late")
    h.__dict__ ;; cell ;; inner() ;; inner.__closure__[0].cell_contents ;; h.__code__.co_name ;; h.__module__
    h.__qualname__ ;; p() ;; p.args ;; p.keywords ;; p.func.__name__ ;; bm() ;; bm.__self__.i ;; bm.__name__
    bm.__func__.__name__ ;; h.__annotations__ ;; callable(h)
    """,
    "lists": """
    l[0] ;; l[-1][0] ;; len(l) ;; sum(l[:2]) ;; l[::-1][1] ;; 1 in l ;; l.index(2) if 2 in l else 0 ;; list(l)
    l==[1,2,[3]] ;; l*2 ;; str(l) ;; bool(l) ;; max(l[:2]) ;; [*l] ;; tuple(l) ;; l.count(1) ;; sorted(l[:2]) ;; l<[2]
    enumerate(l).__next__()[1] ;; list(zip(l,l))[0] ;; dict(enumerate(l)) ;; any(l) ;; copy.copy(l) ;; copy.deepcopy(l)
    l is l ;; hash(tuple(l[:2])) ;; {*l[:2]} ;; min(l[:2],default=0) ;; list(map(str,l)) ;; list(filter(None,l))
    functools.reduce(operator.add,l[:2]) ;; f"{l}" ;; " ".join(map(str,l)) ;; l.copy() ;; reversed(l).__next__() if l else 0
    list(itertools.chain(l,l))
    """,
    "dicts": """
    iter(d).__next__() ;; reversed(d).__next__() ;; iter(d.items()).__next__() ;; reversed(d.values()).__next__()
    d["a"] ;; d.get("a") ;; d.get("late",0) ;; d["b"]["c"] ;; len(d) ;; list(d) ;; list(d.values())[0] ;; list(d.items())[0]
    "late" in d ;; d=={"a":1,"b":{"c":1}} ;; {**d} ;; d|{"q":1} ;; next(iter(d)) ;; sorted(d) ;; bool(d) ;; str(d)
    d.keys()&{"a"} ;; dict(d) ;; d.copy() ;; max(d) ;; [k for k in d] ;; tuple(d.items()) ;; copy.deepcopy(d) ;; mpx["a"]
    len(mpx) ;; list(mpx) ;; "late" in mpx ;; dict(mpx)
    """,
    "sets": """
    1 in st ;; len(st) ;; sorted(st) ;; st|{9} ;; sum(st) ;; st=={1,2} ;; max(st) ;; st<{1,2,3} ;; frozenset(st) ;; bool(st)
    st&{1} ;; st.isdisjoint({5}) ;; str(st) ;; list(st) ;; {x for x in st}
    """,
    "deques": """
    dq[0] ;; len(dq) ;; list(dq) ;; dq.maxlen ;; 1 in dq ;; dq.count(1) ;; sum(dq) ;; tuple(dq)
    dq==collections.deque([1,2]) ;; bool(dq) ;; dq[-1] ;; list(reversed(dq))
    """,
    "tables": """
    od["a"] ;; list(od) ;; len(od) ;; next(iter(od)) ;; list(od.items()) ;; od=={"a":1,"b":2} ;; next(reversed(od))
    dd["a"] ;; len(dd) ;; "late" in dd ;; list(dd) ;; dd.default_factory.__name__ ;; c["a"] ;; c["zz"] ;; c.most_common(1)
    len(c) ;; sum(c.values()) ;; c.total() ;; sorted(c.elements()) ;; cm["a"] ;; list(cm) ;; len(cm) ;; cm.get("late",0)
    "z" in cm ;; len(cm.maps) ;; ud["a"] ;; len(ud) ;; list(ud) ;; ul[0] ;; len(ul) ;; str(us) ;; us=="a"
    """,
    "subclasses_of_builtins": """
    t[1][0] ;; len(t[1]) ;; ls[0] ;; ls.extra ;; len(ls) ;; ds["a"] ;; ds.extra ;; len(ds) ;; ts.extra ;; ts[0] ;; ss[0]+"b"
    isb[0]+1 ;; hasattr(ls,"late") ;; vars(ls) ;; vars(ts)
    """,
    "values": """
    h1[0].u ;; h1[0].v ;; h1[0] ;; sum(h1[1]) ;; len(h1[1]) ;; h1[2].stop ;; h1[3] is None ;; h1[4] ;; h1[5]*2 ;; h1[6]+"x"
    h1[7]+b"c" ;; h1[8] ;; torch.ones(1,dtype=h1[8]).dtype ;; h1[9] ;; torch.ones(1,device=h1[9]).device.type ;; h1[10]
    torch.ones(h1[10]).shape ;; h1[11].imag ;; h1[12] is ... ;; h1[13].__name__ ;; 1 in h1[14] ;; len(h1[15])
    float(h1[16]) ;; h1[17].name ;; int(h1[18]) ;; type(h1[4]).__name__ ;; str(h1[5]) ;; bool(h1[3]) ;; P._field_defaults
    P(1).v
    """,
    "enums": """
    E.X.name ;; E.X.user ;; hasattr(E.X,"late") ;; [e.name for e in E] ;; len(E) ;; E["X"].value ;; E(1).name ;; Fl.M|Fl.N
    E.X is E.Y
    """,
    "dataclasses": """
    dc.n ;; len(dc.l) ;; dc==DC() ;; dataclasses.asdict(dc) ;; DC().n ;; dataclasses.replace(dc,n=5).l ;; repr(dc)
    dataclasses.astuple(dc) ;; [f.name for f in dataclasses.fields(dc)] ;; hasattr(dc,"late")
    """,
    "exceptions": """
    ex.args ;; str(ex) ;; len(ex.args) ;; ex.__cause__ ;; getattr(ex,"__notes__",None) ;; hasattr(ex,"late") ;; repr(ex)
    """,
    "holders": """
    tl.v ;; hasattr(tl,"late") ;; cvv.get() ;; wr() is a ;; wr().i ;; wd[a] ;; len(wd) ;; "k" in wv ;; len(wv) ;; ig(d)
    ag(a) ;; mc(a) ;; cached(3) ;; sd(1) ;; sd("s") ;; sd.dispatch(int).__name__ ;; calls[0]
    """,
    "arrays": """
    float(arr[0]) ;; arr.shape ;; arr.dtype.name ;; float(arr.sum()) ;; len(arr) ;; arr.tolist() ;; arr.flags.writeable
    arr.strides
    """,
    "neural_modules": """
    lin.weight.sum() ;; lin.bias is None ;; lin.training ;; lin.in_features ;; lin(torch.ones(2)) ;; net(torch.ones(2))
    net.k ;; net.buf.sum() ;; len(net.ml) ;; len(net.pl) ;; len(net.md) ;; list(net.md) ;; net.drop.p ;; net.training
    net.drop.training ;; [n for n,_ in net.named_parameters()] ;; [n for n,_ in net.named_modules()]
    [n for n,_ in net.named_buffers()] ;; hasattr(net,"late") ;; list(net.state_dict())
    sum(q.numel() for q in net.parameters()) ;; net.a is lin ;; type(net.a).__name__ ;; lin.weight.requires_grad
    lin.weight.grad is None ;; len(net._forward_hooks) ;; net.forward(torch.ones(2)) ;; lin.extra_repr()
    len(list(net.children())) ;; net.a.weight.shape ;; net.get_buffer("buf").sum() ;; net.get_submodule("a").training
    net.ml[0](torch.ones(1)) ;; [m.__class__.__name__ for m in net.ml] ;; net.pl[0].sum() ;; isinstance(net.a,nn.Linear)
    net._parameters.keys()
    """,
    "tensors": """
    ten[0].sum() ;; ten[0].user ;; hasattr(ten[0],"late") ;; ten[0].shape ;; ten[0].dtype ;; ten[0].requires_grad
    ten[0].stride() ;; ten[0].is_leaf ;; ten[0].grad is None ;; ten[0].storage_offset() ;; ten[0]._version
    ten[0].is_contiguous() ;; ten[0].data_ptr()==ten[0].data_ptr() ;; len(ten)
    """,
    "namespaces": """
    ns.v ;; len(ns.w) ;; hasattr(ns,"late") ;; vars(ns) ;; ns==types.SimpleNamespace(v=1,w=[1]) ;; ga.u ;; hasattr(ga,"late")
    getattr(ga,"late",0) ;; ga.store["u"]
    """,
    "surroundings": """
    len("x"*l[0]) ;; abs(-1) ;; int("3") ;; isinstance(1,int) ;; pow(2,2) ;; len(os.environ.get("ZZF",""))
    "zzm" in sys.modules ;; len(sys.argv) ;; torch.get_default_dtype() ;; torch.ones(1).dtype ;; torch.is_grad_enabled()
    torch.pi ;; F.relu(torch.ones(1)) ;; torch.sin(torch.zeros(1)) ;; nn.ReLU()(torch.ones(1))
    torch.Tensor.sum(torch.ones(1)) ;; torch.ones(1).relu() ;; decimal.getcontext().prec ;; gen.initial_seed() ;; __name__
    "late" in globals() ;; collections.abc.Sized.__name__ ;; torch.get_num_threads() ;; torch.is_autocast_enabled("cpu")
    torch.are_deterministic_algorithms_enabled()
    """,
}
# By kind, what is changed.
CHANGES = {
    "modules": """
    mod.k=2 ;; mod.f=lambda: 2 ;; mod.late=1 ;; del mod.k
    """,
    "classes": """
    Meta.mk=2 ;; Meta.mp=property(lambda c: 2) ;; Meta.mm=lambda c: 2 ;; Base.bk=2 ;; A.ak=2 ;; A.bk=3 ;; A.tab["x"]=2
    A.tab={"x":9} ;; A.lst.append(2) ;; A.lst[0]=5 ;; a.i=2 ;; a.nested["q"][1]["z"]=2 ;; a.nested={"q":[1,{"z":9}]}
    A.__len__=lambda s: 5 ;; A.go=lambda s: 2 ;; Base.go=lambda s: 3 ;; a.go=lambda: 4 ;; Base.cm=classmethod(lambda c: 8)
    Base.st=staticmethod(lambda: 8) ;; Base.pr=property(lambda s: 8) ;; A.pr=9 ;; a.late=1 ;; A.late=lambda s: 1 ;; del a.i
    a.__dict__["i"]=7 ;; a.__dict__.update(zz=1) ;; A.__name__="Q" ;; a.__class__=type("K",(A,),{"go":lambda s: 77})
    A.__bool__=lambda s: False ;; A.__eq__=lambda s,o: True ;; A.__doc__="dd" ;; A.__module__="mm" ;; A.__qualname__="qq"
    del A.ak ;; A.__annotations__={"x":int} ;; kk=type("NB",(Base,),{}) ;; Desc.v=2 ;; desc.v=3 ;; A.desc=5
    Desc.__get__=lambda s,o,t=None: 11 ;; A.__hash__=lambda s: 1 ;; A.__str__=lambda s: "strstr"
    Meta.__repr__=lambda c: "metametarepr" ;; A.__call__=lambda s: 1 ;; A.__getattr__=lambda s,n: 13
    A.__getattribute__=lambda s,n: object.__getattribute__(s,n) if n!="i" else 17 ;; Meta.__getattr__=lambda c,n: 19
    A.__init__=lambda s: None ;; A.__iter__=lambda s: iter([1]) ;; A.i=property(lambda s: 23)
    A.__bases__=(Other,) ;; Meta.__str__=lambda c: "of the metaclass"
    A.__instancecheck__=lambda s,o: True ;; Meta.__instancecheck__=lambda c,o: True
    Meta.__subclasscheck__=lambda c,o: True ;; A.__setattr__=lambda s,n,v: None ;; A.__dir__=lambda s: ["x"]
    """,
    "slots": """
    s.p=2 ;; s.q=1 ;; del s.p ;; S.p=5
    """,
    "functions": """
    h.__defaults__=(5,) ;; h.__kwdefaults__={"m":5} ;; h.__kwdefaults__["m"]=6 ;; h.__name__="hh" ;; h.__doc__="x"
    h.attr=2 ;; h.late=1 ;; cell=2 ;; setc(2) ;; inner.__closure__[0].cell_contents=9
    h.__code__=(lambda x,k=1,*,m=1: 99).__code__ ;; h.__module__="q" ;; h.__qualname__="q" ;; p.keywords["k"]=7
    p.__setstate__((h,(5,),{"m":3},{})) ;; p.__setstate__((max,(5,6),{},{})) ;; bm=b.go ;; h.__annotations__["q"]=1
    h=lambda x,k=0,m=0: 42
    """,
    "lists": """
    l[0]=5 ;; l.append(4) ;; l[-1][0]=9 ;; l.reverse() ;; l.clear() ;; l.insert(0,1) ;; l[1]=True ;; l[0]=1.0 ;; l=[7,8,[9]]
    """,
    "dicts": """
    d["a"]=2 ;; d["late"]=1 ;; d["b"]["c"]=2 ;; d["a"]=d.pop("a") ;; d.clear() ;; del d["b"] ;; d={"a":1.0,"b":{"c":1}}
    d["b"]={"c":True}
    """,
    "sets": """
    st.add(3) ;; st.clear() ;; st.discard(1) ;; st={1,2,9} ;; st.add(1.5)
    """,
    "deques": """
    dq.append(3) ;; dq.rotate(1) ;; dq[0]=9 ;; dq.clear() ;; dq=collections.deque([1,2],maxlen=9) ;; dq.extend([5,6,7])
    """,
    "tables": """
    od.move_to_end("a") ;; od["a"]=5 ;; od["z"]=1 ;; dd["a"]=2 ;; dd["late"] ;; dd.default_factory=list ;; c["a"]+=5
    c["zz"]=1 ;; c.clear() ;; cm.maps.append({"late":5}) ;; cm.maps[1]["z"]=9 ;; cm["late"]=2 ;; ud["a"]=2 ;; ud["late"]=1
    ud.data={} ;; ul.append(2) ;; ul[0]=7 ;; us.data="zz"
    """,
    "subclasses_of_builtins": """
    t[1][0]=5 ;; t[1].append(1) ;; t=(1,[7]) ;; ls.append(1) ;; ls.extra=2 ;; ls.late=1 ;; ds["a"]=2 ;; ds.extra=2
    ds["z"]=1 ;; ts.extra=2 ;; ss[0]=SS("q") ;; ss[0]="a" ;; isb[0]=IS(4) ;; isb[0]=3 ;; SS.__add__=lambda s,o: "no"
    IS.__add__=lambda s,o: 1000 ;; LS.__len__=lambda s: 50 ;; LS.__getitem__=lambda s,i: 51 ;; DS.__missing__=lambda s,k: 1
    DS.__getitem__=lambda s,k: 52 ;; TS.__getitem__=lambda s,i: 53
    """,
    "values": """
    h1[0]=P(2) ;; h1[0]=P(1,5) ;; h1[1]=range(5) ;; h1[1]=range(0,5,2) ;; h1[2]=slice(0,3) ;; h1[3]=0 ;; h1[4]=1
    h1[4]=False ;; h1[5]=2.0 ;; h1[5]=1 ;; h1[5]=-0.0 ;; h1[6]="t" ;; h1[7]=b"d" ;; h1[8]=torch.float64
    h1[9]=torch.device("meta") ;; h1[10]=torch.Size([2]) ;; h1[11]=2j ;; h1[12]=None ;; h1[13]=float ;; h1[14]=frozenset({2})
    h1[15].append(1) ;; h1[16]=np.float64(2.0) ;; h1[17]=np.dtype("int8") ;; h1[18]=decimal.Decimal(2)
    P.__new__.__defaults__=(8,) ;; h1[0]=(1,1)
    """,
    "enums": """
    E.X.user=2 ;; E.X.late=1 ;; Fl.M ;; E.extra=1
    """,
    "dataclasses": """
    dc.n=2 ;; dc.l.append(1) ;; dc=DC(5) ;; dc.late=1 ;; DC.n=9 ;; DC.__eq__=lambda s,o: False ;; DC.__repr__=lambda s: "r"
    """,
    "exceptions": """
    ex.args=("b",) ;; ex.args=("a",1,2) ;; ex.__cause__=KeyError() ;; ex.add_note("n") ;; ex.late=1
    """,
    "holders": """
    tl.v=2 ;; tl.late=1 ;; cvv.set(2) ;; del wd[a] ;; wd[b]=2 ;; wv["z"]=b ;; ig=operator.itemgetter("b")
    ag=operator.attrgetter("nested") ;; mc=operator.methodcaller("st") ;; cached.cache_clear() ;; calls[0]=50
    sd.register(int)(lambda x: 2) ;; sd.register(str,lambda x: 3)
    """,
    "arrays": """
    arr[0]=5 ;; arr=np.array([1.,2.,3.]) ;; arr=np.array([1,2]) ;; arr.setflags(write=False) ;; arr=np.arange(4.)[::2]
    """,
    "neural_modules": """
    lin.weight=nn.Parameter(torch.zeros(2,2)) ;; lin.weight.data.fill_(3) ;; lin.bias=None ;; lin.eval() ;; net.eval()
    lin.in_features=9 ;; net.k=2 ;; net.buf=torch.zeros(2) ;; net.buf.fill_(4) ;; net.buf=None ;; net.ml.append(nn.Tanh())
    net.ml[0]=nn.Sigmoid() ;; net.pl.append(torch.ones(1)) ;; net.md["z"]=nn.ReLU() ;; net.drop.p=0.5 ;; net.late=1
    net.a=nn.Identity() ;; net.register_buffer("b2",torch.ones(1))
    net.register_parameter("p2",nn.Parameter(torch.ones(1))) ;; del net.buf ;; lin.weight.requires_grad_(False)
    lin.weight.grad=torch.ones(2,2) ;; net.register_forward_hook(lambda m,i,o: o*3)
    lin.register_forward_pre_hook(lambda m,i: (i[0]*2,)) ;; net.forward=lambda x: x*9 ;; Mod.forward=lambda s,x: x*11
    net.add_module("c",nn.ReLU()) ;; net.pl[0]=nn.Parameter(torch.zeros(1)) ;; lin.double() ;; net._modules["a"]=nn.Tanh()
    net.__dict__["k"]=40 ;; lin.weight.data=torch.zeros(3,2) ;; net.ml=nn.ModuleList() ;; del net.md["r"]
    net.requires_grad_(False)
    """,
    "tensors": """
    ten[0].fill_(2) ;; ten[0].user=2 ;; ten[0].late=1 ;; ten[0]=torch.ones(3) ;; ten[0]=torch.ones(2,dtype=torch.float64)
    ten[0].requires_grad_() ;; ten[0]=torch.ones(4)[::2] ;; ten[0]=torch.ones(2).requires_grad_()*1
    ten[0]=torch.ones(4)[2:] ;; ten.append(1) ;; ten[0].grad=torch.ones(2) ;; ten[0].data=torch.zeros(2) ;; ten[0].t_()
    ten[0].unsqueeze_(0)
    """,
    "namespaces": """
    ns.v=2 ;; ns.w.append(1) ;; ns.late=1 ;; ga.store["u"]=2 ;; ga.store["late"]=1 ;; ga.late=3
    WithGA.__getattr__=lambda s,n: 31 ;; ga.u=5
    """,
    "surroundings": """
    abs=lambda v: 71 ;; math=types.SimpleNamespace(pi=3) ;; F=types.SimpleNamespace(relu=lambda x: x-5) ;; late=1
    gen.manual_seed(9) ;; __name__="zzz"
    """,
}


def _parts(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split(";;") if part.strip()]


def _seen(value: Any) -> Any:
    """As plain data, without addresses."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), None if value.is_meta else value.tolist()
    if isinstance(value, list | tuple):
        return type(value).__name__, [_seen(x) for x in value]
    if isinstance(value, dict):
        return type(value).__name__, [(_seen(k), _seen(x)) for k, x in value.items()]
    return type(value).__name__, re.sub("0x[0-9a-f]+", "", repr(value))


def _answer(read: Callable[[], Any]) -> Any:
    try:
        return _seen(read())
    except Exception as e:  # noqa: BLE001  # compared, whatever it is
        return type(e).__name__


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "world", "exec", dont_inherit=True)


def _answers(change: str, reads: list[str], wrap: Callable[[Any], Any]) -> list[list[Any]]:
    """Per read, what it gives twice before the change and twice after it."""
    world: dict[str, Any] = {"__name__": __name__}
    exec(_compiled(WORLD), world)
    exec(_compiled("\n".join(f"def read{i}(): return torch.ones(1) + 1, {read}" for i, read in enumerate(reads))), world)
    asked = [wrap(world[f"read{i}"]) for i in range(len(reads))]
    found = [[_answer(read) for read in asked] for _ in range(2)]
    exec(_compiled(change), world)
    found += [[_answer(read) for read in asked] for _ in range(2)]
    return [list(answers) for answers in zip(*found, strict=True)]


@pytest.mark.parametrize("kind", READS)
def test_no_answer_is_that_of_the_first_call(kind: str) -> None:
    wrong = []
    with warnings.catch_warnings(), config.patch(recompile_limit=64):
        warnings.simplefilter("ignore")
        for change in _parts(CHANGES[kind]):
            reads = _parts(READS[kind])
            before_and_after = _answers(change, reads, lambda f: f)
            reads = [read for read, answers in zip(reads, before_and_after, strict=True) if answers[0] != answers[2]]
            expected = _answers(change, reads, lambda f: f)
            dynamo.reset()
            found = _answers(change, reads, lambda f: dynamo.compile(f, backend="eager"))
            wrong += [f"{change}: {read}: {f} instead of {e}" for read, e, f in zip(reads, expected, found, strict=True) if e != f]
    assert not wrong, "\n".join(wrong)


def _both(change: str, read: str, wrap: Callable[[Any], Any]) -> list[Any]:
    """What a function that reads, changes and reads gives at two calls, and then one that only changes and reads."""
    assigned = {n.id for n in ast.walk(ast.parse(change)) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    names = f"global {', '.join(sorted(assigned))}" if assigned else "pass"
    found = []
    for first in (read, "None"):
        world: dict[str, Any] = {"__name__": __name__}
        exec(_compiled(WORLD), world)
        exec(f"def both():\n {names}\n x = torch.ones(1)\n before = {first}\n {change}\n return x + 1, before, {read}", world)
        both = wrap(world["both"])
        found += [_answer(both), _answer(both)]
    return found


@pytest.mark.parametrize("kind", READS)
def test_a_function_reads_what_it_has_changed(kind: str) -> None:
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for change in _parts(CHANGES[kind]):
            for read in _parts(READS[kind]):
                expected = _both(change, read, lambda f: f)
                if isinstance(expected[0], tuple) and expected[0][1][1] == expected[0][1][2]:
                    continue
                dynamo.reset()
                internal_errors.forget()
                found = _both(change, read, lambda f: dynamo.compile(f, backend="eager"))
                if found != expected or internal_errors.internal_errors():
                    wrong.append(f"{change}: {read}: {found} instead of {expected}; {internal_errors.internal_errors()}")
    assert not wrong, "\n".join(wrong)
