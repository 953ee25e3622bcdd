"""Forms of Python that others here do not have: descriptors, metaclasses, notes of exceptions, patterns, dropped generators."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import weakref

import torch
from torch import nn

from repro_corpus.program import program


@program("", "notes, causes and contexts of exceptions, raised in a handler and from None")
def notes_and_causes(compile):
    @compile
    def f(x):
        out = []
        for how in range(3):
            try:
                try:
                    x + 1
                    raise KeyError("first")
                except KeyError as e:
                    e.add_note("noted")
                    if how == 0:
                        raise ValueError("second") from e
                    if how == 1:
                        raise ValueError("second") from None
                    raise ValueError("second")
            except ValueError as e:
                cause = e.__cause__
                out.append((type(cause).__name__, getattr(cause, "__notes__", None), type(e.__context__).__name__, e.__suppress_context__))
        return x * 2, out

    return f(torch.ones(2))


@program("", "groups of exceptions: split, nested except*, what is left")
def groups(compile):
    @compile
    def f(x):
        seen = []
        try:
            try:
                raise ExceptionGroup("all", [ValueError(1), ExceptionGroup("in", [TypeError(2), KeyError(3)])])
            except* ValueError as g:
                seen.append(("v", [e.args for e in g.exceptions]))
                x = x + 1
            except* TypeError as g:
                seen.append(("t", g.message))
        except ExceptionGroup as left:
            seen.append(("left", left.message, [type(e).__name__ for e in left.exceptions]))
        return x, seen

    return f(torch.ones(2))


@program("", "descriptors: data, non-data, __set_name__, __delete__, and one found on a metaclass")
def descriptors(compile):
    log = []

    class Data:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, cls=None):
            if obj is None:
                return self
            log.append(f"get {self.name}")
            return obj.__dict__.get(self.name, 1)

        def __set__(self, obj, value):
            log.append(f"set {self.name}")
            obj.__dict__[self.name] = value

        def __delete__(self, obj):
            log.append(f"del {self.name}")
            obj.__dict__.pop(self.name)

    class Plain:
        def __get__(self, obj, cls=None):
            log.append(f"plain {obj is None}")
            return 5

    class Meta(type):
        over = Data()

    class C(metaclass=Meta):
        a = Data()
        b = Plain()

    @compile
    def f(x):
        c = C()
        c.a = x * 2
        y = c.a + c.b
        c.__dict__["b"] = 7
        y = y * c.b + C.b
        del c.a
        return y, c.a, C.a is C.__dict__["a"]

    return f(torch.ones(2)), list(log), f(torch.ones(2)), log


@program("", "a metaclass that makes instances its own way, __new__ of another class, __init_subclass__ with keywords")
def metaclass_calls(compile):
    made = []

    class Single(type):
        kept = {}

        def __call__(cls, *args, **kwargs):
            if cls not in cls.kept:
                cls.kept[cls] = super().__call__(*args, **kwargs)
            return cls.kept[cls]

    class A(metaclass=Single):
        def __init__(self, n):
            self.n = n

        def __init_subclass__(cls, /, tag=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.tag = tag
            made.append(tag)

    class B(A, tag="b"):
        pass

    class Odd:
        def __new__(cls, x):
            return x if isinstance(x, torch.Tensor) else super().__new__(cls)

        def __init__(self, x):
            made.append("init")

    @compile
    def f(x):
        a, b, c = A(1), A(2), B(3)
        return x * a.n + b.n, a is b, c.n, c.tag, Odd(x) is x, type(Odd(1)).__name__

    return f(torch.ones(2)), f(torch.ones(2)), made


@program("", "frozen dataclasses with slots, replace, __post_init__, InitVar and fields made by factories")
def dataclass_forms(compile):
    @dataclasses.dataclass(frozen=True, slots=True)
    class P:
        x: torch.Tensor
        n: int = 2
        tags: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(order=True)
    class Q:
        n: int
        scale: dataclasses.InitVar[float] = 2.0
        value: float = dataclasses.field(init=False, compare=False)

        def __post_init__(self, scale):
            self.value = self.n * scale

    @compile
    def f(x):
        p = P(x)
        p.tags.append("t")
        q = dataclasses.replace(p, n=5)
        try:
            p.n = 3
        except dataclasses.FrozenInstanceError as e:
            said = str(e)
        a, b = Q(1), Q(2, 3.0)
        return q.x * q.n, q.tags is p.tags, said, a < b, sorted([b, a])[0].value, b.value, [f.name for f in dataclasses.fields(q)]

    return f(torch.ones(2))


@program("", "enums: flags, auto, members with methods, lookup by value and name, a match over them")
def enum_forms(compile):
    class Kind(enum.Flag):
        A = enum.auto()
        B = enum.auto()
        AB = A | B

    class Op(enum.Enum):
        ADD = "+"
        MUL = "*"

        def __call__(self, x, y):
            return x + y if self is Op.ADD else x * y

        @classmethod
        def _missing_(cls, value):
            return cls.MUL

    @compile
    def f(x, kind, text):
        op = Op(text)
        match op:
            case Op.ADD:
                name = "add"
            case Op.MUL:
                name = "mul"
        return op(x, 3), name, Kind.A in kind, kind & Kind.B, kind.name, Op["ADD"].value, [o.name for o in Op]

    return [f(torch.ones(2), k, t) for k in (Kind.A, Kind.AB) for t in ("+", "*", "?")]


@program("", "match: mappings with rest, sequences with stars, classes with __match_args__, guards that bind")
def match_forms(compile):
    class Point:
        __match_args__ = ("x", "y")

        def __init__(self, x, y):
            self.x, self.y = x, y

    def kind(v, x):
        match v:
            case {"op": "mul", "by": n, **rest}:
                return x * n, rest
            case [first, *middle, last] if (total := first + last) > 3:
                return x + total, middle
            case Point(0, y) | Point(y, 0):
                return x - y, "axis"
            case Point(x=a, y=b):
                return x * a * b, "point"
            case str() as s:
                return x, s.upper()
            case int(n) | float(n):
                return x + n, "number"
            case (None | True) as b:
                return x, b
            case _:
                return x, "other"

    @compile
    def f(x, v):
        return kind(v, x)

    cases = [{"op": "mul", "by": 2, "k": 1}, [1, 2, 3], [1, 1], Point(0, 2), Point(3, 0), Point(2, 2), "s", 3, 2.5, None, True, b"x", ()]
    return [f(torch.ones(2), v) for v in cases]


@program("", "singledispatch, partialmethod, cached_property, cache with tensors as results, reduce, wraps")
def functools_forms(compile):
    calls = []

    @functools.singledispatch
    def scale(v, x):
        return x

    @scale.register
    def _(v: int, x):
        return x * v

    @scale.register(list)
    def _(v, x):
        return functools.reduce(lambda a, n: a + n, v, x)

    class C:
        def power(self, x, n):
            return x**n

        square = functools.partialmethod(power, n=2)

        @functools.cached_property
        def weight(self):
            calls.append("weight")
            return torch.full((2,), 3.0)

    def twice(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs) * 2

        return inner

    @twice
    def named(x):
        """Doc."""
        return x + 1

    c = C()

    @compile
    def f(x):
        return scale(2, x), scale([1, 2], x), scale("s", x), scale(True, x), c.square(x) * c.weight, named(x), named.__name__, named.__doc__

    return f(torch.ones(2)), f(torch.ones(2)), calls


@program("", "context variables set, reset and copied; a context that runs a function")
def context_variables(compile):
    var = contextvars.ContextVar("var", default=1)

    @compile
    def f(x):
        token = var.set(3)
        y = x * var.get()
        var.reset(token)
        return y + var.get(), token.old_value is contextvars.Token.MISSING

    @compile
    def g(x):
        ctx = contextvars.copy_context()
        return ctx.run(lambda: x * (var.set(5) and var.get())), var.get()

    return f(torch.ones(2)), g(torch.ones(2)), var.get()


@program("", "weak references to modules and objects of the program, with callbacks, and a WeakKeyDictionary")
def weak_references(compile):
    class K:
        pass

    log = []
    held = K()
    table = weakref.WeakKeyDictionary({held: 2})
    lin = nn.Linear(2, 2)
    ref = weakref.ref(lin)

    @compile
    def f(x):
        mine = K()
        r = weakref.ref(mine, lambda _: log.append("gone"))
        alive = r() is mine
        del mine
        return ref()(x), table[held] * x, alive, r() is None

    torch.nn.init.ones_(lin.weight), torch.nn.init.zeros_(lin.bias)
    return f(torch.ones(2)), f(torch.ones(2)), log


@program("", "sends, throws and closes of generators that hold contexts, and what they give back")
def generator_contexts(compile):
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(f"+{name}")
        try:
            yield name
        except ValueError as e:
            log.append(str(e))
        finally:
            log.append(f"-{name}")

    def steps(x):
        with scope("a"):
            got = yield x
            x = x * (got or 2)
            yield x
        try:
            yield x + 1
        except GeneratorExit:
            log.append("exit")
            raise
        return "end"

    @compile
    def f(x):
        g = steps(x)
        out = [next(g), g.send(3)]
        out.append(g.throw(ValueError("thrown")))
        g.close()
        g2 = steps(x)
        first = next(g2)
        del g2
        with contextlib.suppress(ZeroDivisionError), scope("b") as b:
            out.append(b)
            1 // 0
        return out, first

    return f(torch.ones(2)), list(log), f(torch.ones(2)), log


@program("", "named tuples with methods and defaults, made by _make, replaced, compared, unpacked with stars")
def named_tuples(compile):
    class P(collections.namedtuple("P", "x y z", defaults=(1, 2))):  # noqa: PYI024  # the form at hand
        __slots__ = ()

        @property
        def total(self):
            return self.x + self.y + self.z

        def __add__(self, other):
            return P(*(a + b for a, b in zip(self, other)))

    @compile
    def f(x):
        p = P(x)
        q = P._make([x * 2, 3, 4])._replace(y=7)
        _, *rest = q
        return (p + q).total, p._asdict(), rest, P._fields, q[1:], type(p + q).__name__, len(p), p._field_defaults

    return f(torch.ones(2))


@program("", "order of dicts and sets that change while the function runs")
def orders(compile):
    @compile
    def f(x, d):
        d["z"] = d.pop("a")
        d |= {"b": 5, "c": x}
        out = [k for k in d]
        d.setdefault("q", []).append(1)
        last = d.popitem()
        moved = {v: k for k, v in {"one": 1, "uno": 1}.items()}
        try:
            for k in d:
                d[k + "x"] = 1
        except RuntimeError as e:
            out.append(str(e))
        return x + len(d), out, last, moved, list(reversed(d)), d.keys() & {"b", "z"}

    d = {"a": 1, "b": 2}
    return f(torch.ones(2), d), list(d.items())


@program("", "order of sets whose items' hashes collide, combined with dicts' views and each other")
def colliding_items(compile):
    @compile
    def f(x, d, s):
        views = [d.keys() & s, s & d.keys(), d.keys() - {3}, s - d.keys()]
        more = [d.keys() & [0, 8, 16], d.keys() & {0, 8}, {0, 8} & d.keys(), d.items() & {(0, 1), (8, 2)}]
        sets = [s & {8, 0, 24, 1}, {8, 0} & s, s | {32, 24}, s - {1}, s.intersection({8, 0})]
        return x + 1, [[list(s) for s in group] for group in (views, more, sets)]

    return f(torch.ones(2), {8: 2, 0: 1, 3: 0, 16: 4}, {16, 0, 8, 24})


@program("", "generators that are dropped where they are suspended: deleted, replaced, left by a loop, an error and a frame")
def dropped_generators(compile):
    log = []

    def steps(x, name):
        with torch.no_grad():
            try:
                yield x * 2
                yield x * 3
            finally:
                log.append(name)

    @compile
    def f(x):
        g = steps(x, "deleted")
        a = next(g)
        del g
        b = x * 2
        g = steps(x, "replaced")
        next(g)
        log.append("before")
        g = steps(x, "kept")
        log.append("behind")
        c = next(g)
        d = x * 4
        h = g
        del g
        log.append("two names")
        del h
        for y in steps(x, "loop"):
            break
        try:
            k = steps(x, "error")
            next(k)
            raise ValueError
        except ValueError:
            log.append("caught")
        k = None

        def inner():
            n = steps(x, "frame")
            return next(n)

        e = inner()
        return a, b, c, d, e, x * 5, torch.is_grad_enabled()

    x = torch.ones(2, requires_grad=True)
    return f(x), list(log), f(x), log, torch.is_grad_enabled()
