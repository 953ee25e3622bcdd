"""Programs of ordinary Python around tensors: closures, generators, contexts, exceptions, classes, patterns, formats, containers."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import operator

import torch

from repro_corpus.program import program


@program("", "closures that count with nonlocal, made in a loop and called later")
def counting_closures(compile):
    @compile
    def f(x):
        total = 0
        made = []

        def add(step, kept=[]):
            nonlocal total

            def inner(y):
                nonlocal total
                total += step
                kept.append(step)
                return y * total, tuple(kept)

            return inner

        made = [add(i) for i in range(1, 4)]
        results = [fn(x) for fn in reversed(made)]
        late = [lambda: i * 2 for i in range(3)]
        return results, total, [fn() for fn in late]

    return f(torch.ones(2)), f(torch.ones(2))


@program("", "a coroutine by generator: send, throw, close, a return value and yield from")
def generators(compile):
    def average():
        total, count, mean = 0.0, 0, None
        try:
            while True:
                try:
                    value = yield mean
                except KeyError as e:
                    value = e.args[0]
                if value is None:
                    return mean
                total, count = total + value, count + 1
                mean = total / count
        finally:
            log.append("closed")

    def outer(results):
        while True:
            results.append((yield from average()))

    log = []

    @compile
    def f(x):
        results = []
        g = outer(results)
        next(g)
        seen = [g.send(x), g.send(x * 3), g.throw(KeyError(x * 5))]
        g.send(None)
        g.close()
        return seen, results, list(log)

    return f(torch.ones(2))


@program("", "contexts that swallow, replace and chain exceptions, in an ExitStack")
def contexts(compile):
    class Scope:
        def __init__(self, name, swallow):
            self.name, self.swallow = name, swallow

        def __enter__(self):
            log.append(f"+{self.name}")
            return self

        def __exit__(self, kind, error, trace):
            log.append(f"-{self.name}:{kind.__name__ if kind else None}")
            if self.swallow == "replace":
                raise LookupError(self.name) from error
            return self.swallow

    @contextlib.contextmanager
    def scaled(k):
        try:
            yield k
        except LookupError as e:
            log.append(repr(e.__cause__))
            raise ValueError("outer") from None
        finally:
            log.append("finally")

    log = []

    @compile
    def f(x):
        with Scope("a", True), scaled(3) as k, contextlib.ExitStack() as stack:
            stack.enter_context(Scope("b", "replace"))
            stack.callback(log.append, "callback")
            x = x * k
            raise TypeError("inner")
        with contextlib.suppress(ZeroDivisionError):
            x = x + 1
            1 // 0
        return x

    return f(torch.ones(2)), log


@program("", "return, break and continue in finally, and what they override")
def finally_wins(compile):
    @compile
    def f(x, n):
        def one():
            try:
                return x + 1
            finally:
                return x + 2

        def two():
            for i in range(5):
                try:
                    if i == n:
                        raise ValueError(i)
                    continue
                except ValueError as e:
                    y = x * e.args[0]
                    break
                finally:
                    seen.append(i)
            else:
                y = x - 1
            return y

        def three():
            try:
                raise KeyError("lost")
            except KeyError:
                try:
                    raise ValueError("kept")
                finally:
                    seen.append("three")

        try:
            three()
        except ValueError as e:
            seen.append(repr(e.__context__))
        return one(), two()

    seen = []
    return f(torch.ones(2), 2), f(torch.ones(2), 9), seen


@dataclasses.dataclass(order=True)
class Item:
    price: float
    tags: list = dataclasses.field(default_factory=list, compare=False)
    total: float = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.price * 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: torch.Tensor
    y: float = 2.0


@program("", "dataclasses: defaults, order, replace, frozen with slots, asdict")
def data_classes(compile):
    @compile
    def f(x):
        items = sorted([Item(3.0), Item(1.0, ["a"]), Item(2.0)])
        items[0].tags.append(len(items))
        p = Point(x=x)
        q = dataclasses.replace(p, y=5.0)
        try:
            q.y = 3.0
        except dataclasses.FrozenInstanceError as e:
            failed = str(e)
        names = [d.name for d in dataclasses.fields(q)]
        return (
            x * items[-1].total + q.y,
            [i.price for i in items],
            items[0].tags,
            failed,
            names,
            p == p,
            items[0] < items[1],
            repr(items[0]),
        )

    return f(torch.ones(2))


SHAPES = "{0.shape} {1[0]} {k:,}"
PERCENT = "%5.1f %s %%"


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 1)

    def __set__(self, instance, value):
        if value < 0:
            raise ValueError(f"{self.name[1:]} must not be negative: {value}")
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Registry(type):
    known: dict = {}

    def __new__(mcls, name, bases, space, **options):
        made = super().__new__(mcls, name, bases, space)
        mcls.known[name] = options.get("weight", 1)
        return made

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.born = len(Registry.known)
        return made

    def __getitem__(cls, n):
        return cls, n

    def __len__(cls):
        return 7


class Shape(metaclass=Registry, weight=3):
    sides = Positive()
    __slots__ = ("__dict__", "_sides")

    def __init__(self, sides):
        self.sides = sides

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.label = cls.__name__.lower()


class Square(Shape):
    pass


@program("", "descriptors that check, metaclasses that count, classes that are subscripted")
def descriptors_and_metaclasses(compile):
    @compile
    def f(x):
        s = Square(4)
        s.sides += 1
        try:
            s.sides = -2
        except ValueError as e:
            failed = str(e)
        y = x * s.sides
        del s.sides
        return (
            y * s.sides,
            failed,
            s.born,
            Square.label,
            Registry.known["Shape"],
            len(Square),
            Square[3][1],
            isinstance(Shape.sides, Positive),
        )

    return f(torch.ones(2)), f(torch.ones(2))


@program("", "match: classes, mappings with rest, sequences with star, guards, or-patterns and captures")
def patterns(compile):
    @dataclasses.dataclass
    class Move:
        dx: float
        dy: float = 0.0

    @compile
    def f(x, command):
        match command:
            case Move(dx=0, dy=dy):
                return x + dy, "vertical"
            case Move(dx, dy) if dx == dy:
                return x * dx, "diagonal"
            case {"op": "scale" | "grow" as op, "by": (int() | float()) as by, **rest}:
                return x * by, op, sorted(rest)
            case [first, *middle, last] if len(middle) > 1:
                return x + first - last, middle
            case (a, b):
                return x * a / b, "pair"
            case str() as text:
                return x, text.upper()
            case None | False:
                return x, "nothing"
            case _:
                return x, "other"

    commands = [Move(0, 3), Move(2, 2), Move(1), {"op": "grow", "by": 2, "k": 1}, [1, 2, 3, 4], (3, 4), "word", None, False, 3.5, [1, 2, 3]]
    return [f(torch.ones(2), c) for c in commands]


@program("", "walrus in comprehensions, star arguments of all kinds, and keyword order")
def calls_and_walrus(compile):
    def collect(first, /, *rest, key=1, **named):
        return first, rest, key, list(named.items())

    @compile
    def f(x, n):
        total = 0
        partial = [total := total + i for i in range(n)]
        found = [y for i in partial if (y := i * 2) > 2]
        if (big := max(partial, default=-1)) > 2:
            x = x * big
        head, *body, tail = [*partial, x, *found]
        options = {"b": 2, **{"a": 1, "key": 9}}
        try:
            collect(*body, first=3, **options, b=4)
        except TypeError as e:
            failed = str(e)
        return collect(x, *body, **options), collect(*(1, 2), *[3], key=0, z=1), head, tail, y, failed

    return f(torch.ones(2), 4), f(torch.ones(2), 3)


@program("", "classes made inside the function: bodies with loops, closures, super, properties and class methods")
def local_classes(compile):
    @compile
    def f(x, k):
        class Base:
            table = {}
            for i in range(3):
                table[i] = i * 2
            del i

            def __init__(self, y):
                self.y = y

            def step(self):
                return self.y * k

            @property
            def double(self):
                return self.y * 2

            @classmethod
            def make(cls, y):
                return cls(y + len(cls.__mro__))

        class Child(Base):
            def step(self):
                return super().step() + self.table[2]

            @Base.double.setter
            def double(self, value):
                self.y = value / 2

        c = Child.make(x)
        before = c.step()
        c.double = x * 10
        return before, c.y, c.double, Child.__qualname__.split(".")[-1], hasattr(Base, "i"), Child.__bases__ == (Base,)

    return f(torch.ones(2), 3), f(torch.ones(2), 4)


@program("", "exceptions: notes, groups split by except*, causes, contexts, and reraising after a change")
def exceptions(compile):
    class Failure(Exception):
        def __init__(self, x, code):
            super().__init__(code)
            self.x, self.code = x, code

        def __str__(self):
            return f"failure {self.code}"

    @compile
    def f(x):
        seen = []
        try:
            try:
                {}["k"]
            except KeyError as e:
                e.add_note("while looking")
                raise Failure(x * 2, 7) from e
        except Failure as failure:
            seen += [str(failure), repr(failure.__cause__), failure.__cause__.__notes__, failure.__suppress_context__]
            x = failure.x
        try:
            raise ExceptionGroup("several", [ValueError(1), TypeError("t"), ExceptionGroup("inner", [ValueError(2)])])
        except* ValueError as group:
            seen.append([type(e).__name__ for e in group.exceptions])
            x = x + len(group.exceptions)
        except* TypeError as group:
            seen.append(group.message)
        try:
            failure
        except NameError as e:
            seen.append(type(e).__name__)
        try:
            try:
                raise OSError(2, "gone", "name")
            except OSError as e:
                e.strerror = "moved"
                raise
        except FileNotFoundError as e:
            seen.append((e.errno, e.strerror, str(e)))
        return x, seen

    return f(torch.ones(2))


@program("", "formats: nested widths, conversions, debug, percent, dates of numbers and objects with __format__")
def formats(compile):
    class Money:
        def __init__(self, n):
            self.n = n

        def __format__(self, spec):
            return f"<{self.n:{spec or 'd'}}>"

    @compile
    def f(x, n, name):
        width = 8
        texts = [f"{n:>{width}}|{n:0{width}.2f}|{name!r:^{width}}|{n=}|{n = :+d}", PERCENT % (n, name), f"{Money(n)} {Money(n):04d}"]
        texts += [
            SHAPES.format(x, name, k=n * 1000),
            f"{n:#x} {n:b} {n:e} {True:d} {None!s}",
            f"{x.dim()}{'' if n else '-'}",
        ]
        texts += [f"{{{n}}} {name:*<6}{name[:2]:>4}", ", ".join(f"{k}={v}" for k, v in {"b": 1, "a": n}.items())]
        return x * len(texts), texts

    return f(torch.ones(2, 1), 42, "abc"), f(torch.ones(2, 1), 5, "xyz")


@program("", "containers: order of dicts, set algebra, Counter, deque, ChainMap, OrderedDict, defaultdict and namedtuple")
def containers(compile):
    Pair = collections.namedtuple("Pair", "left right", defaults=[5])  # noqa: PYI024  # the untyped kind

    @compile
    def f(x):
        d = dict(b=1, a=2)
        d |= {"c": 3}
        d["b"] = d.pop("b")
        counter = collections.Counter("abracadabra")
        counter.subtract({"a": 2})
        queue = collections.deque([1, 2, 3], maxlen=3)
        queue.append(4)
        queue.rotate(1)
        chain = collections.ChainMap({"a": 1}, d)
        chain["z"] = 9
        ordered = collections.OrderedDict(d)
        ordered.move_to_end("a", last=False)
        groups = collections.defaultdict(list)
        for k, v in zip("xyx", range(3), strict=True):
            groups[k].append(x * v)
        p = Pair(x)._replace(right=7)
        s = {3, 1, 2} ^ {2, 5}
        kinds = list(d.items()), counter.most_common(2), list(queue), chain["a"], sorted(chain), list(ordered)
        sets = sorted(s), s <= {1, 3, 5}, d.keys() & {"a", "q"}, frozenset([1]) in {frozenset([1])}
        return kinds, dict(groups), p.right, p._asdict()["right"], sets

    return f(torch.ones(2))


@program("", "itertools, functools and operator: accumulate, groupby, islice, reduce, partial, cache, singledispatch, itemgetter")
def tools(compile):
    calls = []

    @functools.lru_cache(maxsize=2)
    def cached(n):
        calls.append(n)
        return n * n

    @functools.singledispatch
    def describe(v):
        return "object"

    @describe.register
    def _(v: int):
        return "int"

    @describe.register(list)
    def _(v):
        return "list"

    @compile
    def f(x):
        sums = list(itertools.accumulate([x, x * 2, x * 3], operator.add))
        runs = [(k, len(list(g))) for k, g in itertools.groupby("aabccc")]
        some = list(itertools.islice(itertools.cycle([1, 2, 3]), 2, 7))
        pairs = list(itertools.product([0, 1], repeat=2)) + list(itertools.pairwise([1, 2, 3]))
        total = functools.reduce(lambda a, b: a * 2 + b, [x, x + 1], x)
        scale = functools.partial(torch.mul, x)
        numbers = [cached(n) for n in (1, 2, 1, 3, 1)]
        get = operator.itemgetter(1, 0)
        call = operator.methodcaller("sum", 0)
        left, right = itertools.tee(iter([4, 5]))
        return (
            sums,
            runs,
            some,
            pairs,
            total,
            scale(3),
            numbers,
            get([x, 7]),
            call(x),
            next(left),
            list(right),
            [describe(v) for v in (1, [], "s", True)],
        )

    return f(torch.ones(2)), calls
