"""Containers as arguments and results: named tuples, data classes, dicts and their subclasses, deques, sets, pytrees."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import types
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree

from repro_corpus.program import Compile, program


class Both(NamedTuple):
    a: Any
    b: Any


class Sums(Both):
    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return Sums(self.a + other.a, self.b + other.b)


class Tagged(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class TaggedMore(Tagged):
    """A subclass has an instance dict."""


class Sliced(NamedTuple):
    a: torch.Tensor
    b: torch.Tensor

    def __getitem__(self, index: Any) -> Any:
        return Sliced(self.a[index], self.b[index])


@dataclasses.dataclass(frozen=True)
class Base:
    dtype: torch.dtype | None = None

    def cast(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.dtype is None else x.to(self.dtype)


@dataclasses.dataclass(frozen=True)
class Inner(Base):
    scale: torch.Tensor | None = None

    @property
    def has_scale(self) -> bool:
        return self.scale is not None


@dataclasses.dataclass(frozen=True)
class Context:
    left: Inner = Inner()  # frozen, as in the report
    right: Inner = dataclasses.field(default_factory=Inner)


@dataclasses.dataclass(slots=True)
class Slotted:
    a: torch.Tensor
    b: int


@dataclasses.dataclass(order=True)
class Ordered:
    key: int
    value: Any = dataclasses.field(compare=False, default=None)


@dataclasses.dataclass
class Counted:
    x: torch.Tensor
    scale: dataclasses.InitVar[int] = 2
    seen: list[int] = dataclasses.field(default_factory=list)

    def __post_init__(self, scale: int) -> None:
        self.x = self.x * scale
        self.seen.append(scale)


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """As models return it: fields that are also items."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if getattr(self, f.name) is not None:
                self[f.name] = getattr(self, f.name)

    def __getitem__(self, k: Any) -> Any:
        return dict(self.items())[k] if isinstance(k, str) else tuple(self.values())[k]


class Frozen(collections.OrderedDict):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for key, value in self.items():
            setattr(self, key, value)
        self._frozen = True

    def __setitem__(self, key: Any, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise RuntimeError("frozen")
        super().__setitem__(key, value)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@program("pytorch#175943", "a named tuple whose __add__ makes its own kind came back as a plain tuple")
def named_tuple_with_its_own_add(compile: Compile) -> Any:
    @compile
    def f(x):
        both = Sums(x.sin(), x.cos()) + Sums(x.relu(), x.tanh())
        return both, both.a * 0.5 - both.b.exp(), Sums(x, x) + Sums(1, 2)

    x = torch.linspace(-1, 1, 3).requires_grad_()
    out = f(x)
    out[1].sum().backward()
    return out, x


@program("pytorch#161610", "attributes set on an instance of a subclass of a named tuple were lost")
def attributes_of_a_named_tuple(compile: Compile) -> Any:
    @compile
    def f(t):
        t.extra = t.first * 4
        t.extra2 = [t.second]
        return t

    given = TaggedMore(torch.tensor([2.0]), torch.tensor(1.0))
    out = f(given)
    return out.extra, out.extra2, out is given, vars(given)


@program("pytorch#142399", "fields of a named tuple were read with its own __getitem__")
def named_tuple_with_its_own_getitem(compile: Compile) -> Any:
    @compile
    def f(t):
        return t.a + 1, t[0], t[1:].b, len(t), [x * 2 for x in t]

    a, b = torch.arange(3.0), torch.arange(3.0) + 5
    return f(Sliced(a, b)), f(Sliced(b, a))


@program("pytorch#158772", "_replace, _asdict and _make of a named tuple")
def named_tuple_replace(compile: Compile) -> Any:
    @compile
    def f(t):
        u = t._replace(first=t.first * 2)
        v = type(t)._make([u.second, u.first])
        return u, v, t._asdict(), t == t._replace(), type(t)._fields

    return f(Tagged(torch.tensor([1.0, 2.0]), 0.5))


@program("pytorch#124402", "telling a named tuple from a tuple by its attributes")
def tuple_or_named_tuple(compile: Compile) -> Any:
    @compile
    def f(t):
        if isinstance(t, tuple) and hasattr(t, "_asdict") and hasattr(t, "_fields"):
            return type(t)(*(x * 2 for x in t))
        return type(t)([x * 3 for x in t])

    x = torch.ones(2)
    return f((x, x)), f(Tagged(x, x)), f([x]), f(Sums(x, x))


@program("pytorch#154009", "frozen data classes with data classes as defaults, made inside and outside")
def nested_frozen_dataclasses(compile: Compile) -> Any:
    @compile
    def f(x, context=Context()):  # as in the report
        y = context.left.cast(x)
        if context.right.has_scale:
            y = y * context.right.scale
        return y, dataclasses.replace(context, left=Inner(torch.float64, x)), Context()

    x = torch.ones(2)
    out = f(x), f(x, Context(Inner(torch.float64))), f(x, Context(right=Inner(scale=torch.ones(2) * 3)))
    return [(y, a.left.dtype, a.left.scale, b == Context()) for y, a, b in out]


@program("pytorch#116264", "data classes made inside are compared")
def dataclasses_compared(compile: Compile) -> Any:
    @compile
    def f(x):
        pair = [Ordered(3, x), Ordered(1, x + 1)]
        first, second = sorted(pair)
        return first.value, second, first < second, Ordered(2) == Ordered(2, x), min(pair).key, repr(Ordered(2))

    return f(torch.ones(2))


@program("pytorch#195838", "dataclasses.replace of an instance with slots that was made inside")
def replace_of_a_slotted_instance(compile: Compile) -> Any:
    @compile
    def f(x):
        one = Slotted(a=x, b=1)
        two = dataclasses.replace(one, a=x * 2)
        two.b += one.b
        return two, one, dataclasses.asdict(two)["b"], [f.name for f in dataclasses.fields(two)]

    two, one, b, names = f(torch.ones(3))
    return two.a, two.b, one.a, one.b, b, names


@program("pytorch#96197", "fields with factories and __post_init__")
def post_init_and_factories(compile: Compile) -> Any:
    @compile
    def f(x):
        one, two = Counted(x), Counted(x, 5)
        two.seen.append(7)
        return one.x, two.x, one.seen, two.seen

    return f(torch.ones(2))


@program("pytorch#96386", "an output class that is a data class and an OrderedDict")
def output_class_of_models(compile: Compile) -> Any:
    @compile
    def f(x):
        out = Output(loss=x.sum(), logits=x)
        out["more"] = x + 1
        return out

    out = f(torch.ones(2))
    return type(out).__name__, list(out.items()), out.loss, out["logits"], out[0], out.logits is out["logits"]


@program("pytorch#96130", "an output class with one field only")
def output_class_with_one_field(compile: Compile) -> Any:
    @compile
    def f(out):
        return Output(logits=out.logits * 2 if out.loss is None else out.loss), out[0], len(out), list(out)

    made, first, n, keys = f(Output(logits=torch.ones(2)))
    return list(made.items()), made.logits, made.loss, first, n, keys


@program("ROCm/pytorch#2698", "a dict class that refuses changes once it is made")
def dict_class_that_freezes(compile: Compile) -> Any:
    @compile
    def f(x, config):
        try:
            config["b"] = 3
        except RuntimeError as e:
            x = x + len(str(e))
        return x * config["a"] + config.b, list(config), dict(config)

    return f(torch.ones(2), Frozen(a=2, b=1)), f(torch.ones(2), Frozen(b=5, a=3))


@program("pytorch#198189", "move_to_end of an OrderedDict of the caller is seen outside")
def move_to_end(compile: Compile) -> Any:
    @compile
    def f(cache, x):
        cache.move_to_end("a")
        cache.move_to_end("c", last=False)
        return x + cache["a"]

    cache = collections.OrderedDict(a=1, b=2, c=3)
    out = f(cache, torch.ones(2))
    return out, list(cache), cache.popitem(last=False), list(reversed(cache))


@program("pytorch#198189", "an LRU cache in an attribute, with eviction")
def least_recently_used(compile: Compile) -> Any:
    class Cache:
        def __init__(self):
            self.items = collections.OrderedDict()

        def get(self, key, make):
            if key in self.items:
                self.items.move_to_end(key)
            else:
                self.items[key] = make()
                if len(self.items) > 2:
                    self.items.popitem(last=False)
            return self.items[key]

    cache = Cache()

    @compile
    def f(x, key):
        return x + cache.get(key, lambda: x * 10)

    x = torch.ones(2)
    return [f(x, k) for k in "abaca"], list(cache.items), [f(x * 2, k) for k in "ab"], list(cache.items)


@program("pytorch#130554", "a defaultdict with a factory, filled inside, is a defaultdict outside")
def default_dict(compile: Compile) -> Any:
    @compile
    def f(x, given):
        d = collections.defaultdict(list)
        d["sin"].append(x.sin())
        d["none"]
        given["new"].append(x)
        given["old"] += [x + 1]
        return d

    given = collections.defaultdict(list, {"old": [1]})
    out = f(torch.ones(2), given)
    out["later"].append(3)
    return out, out.default_factory is list, given


@program("pytorch#150110", "items, keys and values are views, also when they are results")
def dict_views(compile: Compile) -> Any:
    @compile
    def f(x):
        d = {"a": x, "b": 2}
        items = d.items()
        d["c"] = x + 1
        return items, d.keys(), d.keys() & {"a", "z"}, d.keys() - {"a"}, ("b", 2) in items, list(d.values())

    items, keys, both, rest, has, values = f(torch.ones(2))
    return type(items).__name__, list(items), type(keys).__name__, list(keys), both, sorted(rest), has, values


@program("pytorch#169253", "a list on a class is changed by each call")
def list_of_a_class(compile: Compile) -> Any:
    class Log:
        items = []  # the point
        count = 0

    @compile
    def f(x):
        Log.items.append(x.sum())
        Log.count += 1
        return x + len(Log.items)

    x = torch.ones(2)
    return f(x), f(x), Log.items, Log.count


@program("pytorch#196173", "control flow on the identity of objects that are changed")
def identity_of_changed_objects(compile: Compile) -> Any:
    @compile
    def f(x, a, b):
        a.append(1)
        if a is b:
            b.append(2)
            return x + len(a)
        return x - len(b)

    x, one, two = torch.ones(2), [0], [0]
    return f(x, one, two), f(x, one, one), f(x, two, one), one, two


@program("pytorch#133509", "a set of the caller takes tensors")
def set_that_takes_tensors(compile: Compile) -> Any:
    seen: set[Any] = set()

    @compile
    def f(x, y):
        seen.add(x)
        return x + y, x in seen, len(seen)

    x, y = torch.ones(2), torch.zeros(2)
    return f(x, y), f(y, x), f(x, y), len(seen), x in seen


@program("pytorch#102329", "a function with *args that is an attribute of an instance is no method")
def function_in_an_attribute(compile: Compile) -> Any:
    class Holder:
        def __init__(self, fn):
            self.fn = fn
            self.table = {"fn": fn}

    @compile
    def f(x, holder):
        return holder.fn(x, 2), holder.table["fn"](x), Holder(lambda *a: len(a)).fn(x, x, x)

    return f(torch.ones(2), Holder(lambda *args: args[0] * len(args)))


@program("pytorch#99262", "a parameter called self, and other names that generated code may use")
def parameters_with_taken_names(compile: Compile) -> Any:
    @compile
    def f(self, torch, g, i0, *args, fn=2, **graph):
        return self + torch * fn, g - i0, args, graph["output"] * 3

    x = torch.ones(2)
    return f(x, x * 2, x * 3, x * 4, x, fn=3, output=x * 5), f(x, x, x, x, output=1)


@program("pytorch#140903", "the dtype that a named tuple holds")
def dtype_from_a_named_tuple(compile: Compile) -> Any:
    class kind(NamedTuple):
        dtype: torch.dtype
        shape: Any
        colour: Colour

    @compile
    def f(x, k):
        return x.to(k.dtype).reshape(k.shape), k.colour is Colour.RED, k._replace(colour=Colour.BLUE)

    x = torch.arange(4.0)
    return f(x, kind(torch.int64, (2, 2), Colour.RED))[:2], f(x, kind(torch.float64, torch.Size([4, 1]), Colour.BLUE))[:2]


@program("", "keys of every plain kind, and what Python takes for the same key")
def keys_of_every_kind(compile: Compile) -> Any:
    @compile
    def f(x, d):
        d[1] = d[True] + x
        d[(1, "a")] = x
        d[None] = d.pop(2.5)
        d[Colour.RED] = d.get(Colour.BLUE, 0)
        d[torch.float32] = type(x)
        return d

    d = {True: 1, 2.5: "x", Colour.BLUE: 3}
    out = f(torch.ones(2), d)
    return [repr(k) for k in out], list(out.values())[:2], out is d


@program("", "a deque with a limit, rotated and read from both ends")
def limited_deque(compile: Compile) -> Any:
    @compile
    def f(x, d):
        d.append(x)
        d.appendleft(x * 2)
        d.rotate(1)
        e = collections.deque(d, maxlen=2)
        return e, d.popleft(), d[-1], d.maxlen

    d = collections.deque([1, 2], maxlen=3)
    return f(torch.ones(2), d), list(d), f(torch.ones(2), d), list(d)


@program("", "the same list at two places of the result, and a list that contains itself")
def sharing_in_results(compile: Compile) -> Any:
    @compile
    def f(x, given):
        inner = [x + 1]
        loop = [x]
        loop.append(loop)
        return inner, {"again": inner, "given": given, "part": given[0]}, loop

    given = [[1]]
    inner, d, loop = f(torch.ones(2), given)
    return inner is d["again"], d["given"] is given, d["part"] is given[0], loop[1] is loop, inner


@program("", "keyword-only arguments with defaults that are changed between calls")
def changed_defaults(compile: Compile) -> Any:
    def f(x, *, scale=2, more=(1, 2), extra=None):
        return x * scale + sum(more), extra

    g = compile(f)
    x = torch.ones(2)
    first = g(x)
    f.__kwdefaults__["scale"] = 5
    second = g(x)
    f.__kwdefaults__ = {"scale": 1, "more": (), "extra": "e"}
    return first, second, g(x), g(x, scale=3, more=[4])


@program("", "trees mapped, flattened and rebuilt, with classes that were registered")
def trees(compile: Compile) -> Any:
    @compile
    def f(tree):
        leaves, spec = pytree.tree_flatten(tree)
        again = pytree.tree_unflatten([x * 2 for x in leaves], spec)
        return again, pytree.tree_map(lambda x: x + 1, tree), len(leaves), spec == pytree.tree_structure(again)

    x = torch.ones(2)
    return f({"b": [x, (x,)], "a": Tagged(x, x), "c": collections.OrderedDict(z=x), "e": collections.deque([x])})


@program("", "copies of containers with tensors: shallow shares, deep does not")
def copies(compile: Compile) -> Any:
    @compile
    def f(x, d):
        shallow, deep, other = copy.copy(d), copy.deepcopy(d), {**d}
        shallow["l"].append(x)
        other["n"] = 1
        deep["l"][0].add_(1)
        return shallow, deep, other, d | {"k": 2}

    x = torch.ones(2)
    d = {"l": [x]}
    out = f(x * 3, d)
    return out, d, x


@program("", "SimpleNamespace, mappingproxy and instances with __slots__ as arguments")
def other_holders(compile: Compile) -> Any:
    class Slots:
        __slots__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    @compile
    def f(n, p, s):
        n.y = n.x * 2
        s.b = s.a + p["k"]
        del s.a
        return n.y, hasattr(s, "a"), len(p)

    x = torch.ones(2)
    n, s = types.SimpleNamespace(x=x), Slots(x, 1)
    return f(n, types.MappingProxyType({"k": 3}), s), n.y, s.b, hasattr(s, "a")


@program("", "unpacking of every form, with a tensor as iterable")
def unpacking(compile: Compile) -> Any:
    @compile
    def f(x, pair, d):
        (a, b), *rest = pair, *x
        first, *middle, last = [*rest, *d, *d.values()]
        merged = {**d, "z": a, "k": b}
        return a, b, first, middle, last, merged, (*range(2), *reversed([a, b]))

    x = torch.arange(6.0).view(3, 2)
    return f(x, (1, x[0]), {"k": x, "l": 2})


def _plus_one(x: Any) -> Any:
    return x + 1


class _Rules:
    def double(self, x: Any) -> Any:
        return x * 2


_RULES = _Rules()
_TABLE: dict[Any, Any] = {_plus_one: 1, torch.Tensor.add: 2, str.upper: 3, torch.sin: 4, _RULES.double: 5, torch: 6, (_plus_one, 1): 7}


@program("", "a table keyed by functions, methods, descriptors and modules: found by the rules of Python")
def keys_that_are_functions(compile: Compile) -> Any:
    @compile
    def f(x, probe):
        mine = {_plus_one: x, _RULES.double: 2}
        mine[_RULES.double] = 3
        return probe in _TABLE, _TABLE.get(probe, 0), probe in {probe}, probe in set(_TABLE), len(mine), mine[_RULES.double]

    probes = [_plus_one, torch.Tensor.add, str.upper, torch.sin, _RULES.double, torch, (_plus_one, 1), _Rules().double, len]
    return [f(torch.ones(2), p) for p in probes]


@program("", "functions registered in a table, called by what they are for")
def dispatch_by_function(compile: Compile) -> Any:
    table: dict[Any, Any] = {}

    def handles(fn):
        def register(g):
            table[fn] = g
            return g

        return register

    @handles(torch.sin)
    def _(x):
        return x.cos()

    @handles(_plus_one)
    def _(x):
        return x - 1

    @compile
    def f(x):
        return [table.get(fn, fn)(x) for fn in (torch.sin, _plus_one, torch.exp)]

    x = torch.ones(2)
    first = f(x)
    table[torch.exp] = torch.log
    return first, f(x), len(table)
