# ruff: noqa: E731, E741, F821, UP028, UP031 - every construct of the language has to occur, also those that are better avoided
"""Functions to be cut everywhere, with calls. A function that logs into a list returns it, so that repeated side effects show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []


def case(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function to be called with these arguments."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((fn, args, kwargs))
        return fn

    return register


class Manager:
    """Logs entry and exit; swallows exceptions if asked to."""

    def __init__(self, log: list[Any], name: str, swallow: bool = False) -> None:
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self) -> str:
        self.log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind: type | None, value: object, traceback: object) -> bool:
        self.log.append(("exit", self.name, kind and kind.__name__))
        return self.swallow


SCALE = 3


@case(3, 4)
def arithmetic(a, b):
    c = a + b * 2 - (a // b) ** 2
    c += a
    c <<= 1
    d = -c if c > 5 else ~c
    return c, d, not d, a @ Mat() if False else +a


class Mat:
    pass


@case([1, 2, 3])
@case([])
def loop(xs):
    total = 0
    for x in xs:
        if x == 2:
            continue
        total += x * SCALE
    else:
        total += 100
    return total


@case(4)
def nested_loops(n):
    out = []
    for i in range(n):
        for j in range(i):
            if j == 2:
                break
            for k in (i, j):
                out.append(i * j + k)
        else:
            out.append("done")
    return out


@case(5)
@case(-5)
def while_else(n):
    log = []
    while n > 0:
        n -= 1
        if n == 2:
            log.append("two")
            continue
        log.append(n)
    else:
        log.append("else")
    while True:
        n += 1
        if n > 3:
            break
    return log, n


@case(0)
@case(1)
@case("x")
def try_all(x):
    log = []
    try:
        log.append(10 / x)
    except ZeroDivisionError as error:
        log.append(str(error))
    except TypeError:
        log.append("type")
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        try:
            log.append([1][x])
        finally:
            log.append("inner")
    except (IndexError, TypeError) as error:
        log.append(type(error).__name__)
    return log


@case(4)
def handler_in_loop(n):
    log = []
    for i in range(n):
        try:
            log.append(1 / (i - 2))
            late = i
        except ZeroDivisionError:
            failed = i
            continue
        log.append(late)
    log.append(failed)
    return log


@case(4)
def unbound_after_handler(n):
    for i in range(n):
        try:
            if i == 1:
                raise KeyError(i)
            seen = i
        except KeyError:
            del seen
        else:
            continue
        break
    return seen


@case(7)
def uncaught(x):
    log = [x]
    with Manager(log, "a"):
        log.append(1)
        try:
            raise ValueError(log)
        finally:
            log.append("cleanup")


def raises(x):
    raise KeyError(x)


@case(3)
def callee_raises(n):
    log = []
    for i in range(n):
        try:
            raises(i)
        except KeyError as error:
            log.append(error.args)
    try:
        try:
            raises(x=n)
        finally:
            log.append("finally")
    except KeyError:
        return log, raises


@case(7)
def chained(x):
    try:
        {}[x]
    except KeyError as error:
        raise RuntimeError("outer") from error


@case(1)
@case(0)
def with_blocks(x):
    log = []
    with Manager(log, "a") as a, Manager(log, "b", swallow=True):
        log.append(a)
        with Manager(log, "c"):
            log.append(1 / x)
        log.append("after c")
    with contextlib.suppress(IndexError):
        log.append([][x])
    for i in range(3):
        with Manager(log, i):
            if i == 1:
                break
            continue
    return log


@case(2)
def return_in_with(x):
    log = []
    for i in range(5):
        with Manager(log, i):
            if i == x:
                return log, i
    return None


@case(1)
@case(0)
def return_in_finally(x):
    try:
        return 1 / x
    finally:
        if not x:
            return "swallowed"


@case([3, 1, 2])
def comprehensions(xs):
    y = 10
    a = [x + y for x in xs if x > 1]
    b = {x: [z * x for z in xs] for x in xs}
    c = {x % 2 for x in xs}
    d = sum(x * y for x in xs)
    e = [(lambda: x)() for x in xs]
    return a, b, c, d, e, [[i + j for i in a] for j in range(2)]


@case([3, 1, 2])
def comprehension_restores(xs):
    x = "outer"
    first = [x for x in xs]
    del x
    second = [x for x in xs for y in first if y == x]
    try:
        x
    except UnboundLocalError:
        second.append("unbound")
    x = 5
    third = [(lambda k: k + x)(1) for x in xs]
    return first, second, third, x


@case(2, 3)
def closures(a, b):
    total = 0

    def add(n):
        nonlocal total, b
        total += n * a
        b += 1
        return total

    add(1)
    a = 7
    add(2)
    inner = lambda k=b: (k, a, total, add(k))
    return inner(), total, b


def make_free():
    count, later = 0, None

    @case(2)
    def free_variables(n):
        nonlocal count, later
        count = n
        for _ in range(n):
            count += 1
        later = count
        get = lambda: count + later
        del later
        later = 9
        return get(), count

    return free_variables


make_free()


class Base:
    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x


class Derived(Base):
    def get(self):
        first = super().get()
        via = super()
        return first, via.get(), super().__init__, __class__.__name__

    def rebound(self):
        me = lambda: self.x
        self = Derived(self.x + 1)
        return me(), super().get()

    def in_comprehension(self):
        cls = super()
        return [cls.get() + i for i in range(2)]


@case(4)
def unbound_methods(x):
    return Derived(x).rebound(), Derived(x).in_comprehension()


CASES.append((Derived.get, (Derived(4),), {}))
CASES.append((Derived.rebound, (Derived(4),), {}))
CASES.append((Derived.in_comprehension, (Derived(4),), {}))


@case(1, 2, 3, 4, key=5, other=6)
def signature(a, /, b=10, *rest, key, missing=None, **more):
    return a, b, rest, key, missing, more


@case(1, 2, 3)
def stars(*args):
    f = lambda *a, **k: (a, k)
    d = {"x": 1}
    return f(*args), f(*args, 4, **d), f(**d, y=2), [*args, *args], {**d, "z": 3}, (0, *args), {*args}


@case(5)
def keywords(x):
    f = lambda a, b=2, *, c=3: (a, b, c)
    s = "a,b"
    return f(x, c=x + 1), f(a=1, b=x if x > 2 else 0), sorted([3, 1], key=lambda v: -v, reverse=True), s.split(sep=","), print(end="")


@case(3.14159, "q")
def fstrings(x, y):
    width = 8
    return f"{x:.2f} {y!r:>{width}} {x=} {y!s}{x}" + "%s" % y + f"{x}"


@case([1, 2, 3, 4])
def unpacking(xs):
    a, b, *c = xs
    *d, e = xs
    (f, g), h = (a, b), c
    a, b = b, a
    a, b, e = e, a, b
    i = j = xs
    k, *l, m = "hello"
    return a, b, c, d, e, f, g, h, i is j, k, l, m


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


@case(1)
@case([1, 2, 3])
@case({"k": 1, "z": 2})
@case(Point(0, 5))
@case("other")
def matching(value):
    match value:
        case int(n) if n > 0:
            return "int", n
        case [a, *rest]:
            return "list", a, rest
        case {"k": k, **others}:
            return "dict", k, others
        case Point(x=0, y=y) | Point(x=y, y=0):
            return "point", y
        case _:
            return "else"


@case({"a": 1})
def deleting(d):
    x, y = 1, [1, 2, 3]
    del x
    del y[0], d["a"]
    p = Point(1, 2)
    del p.x
    p.z = 3
    p.z += 1
    y[0] += 5
    y[-1:] = [7, 8]
    return y, d, vars(p), y[1:], y[::2]


@case([5, 10])
def walrus(xs):
    out = []
    while (n := len(xs)) > 0 and (top := xs.pop()):
        out.append((n, top))
    return out, n, [m := i for i in range(3)], m


@case(1, 5, 10)
@case(7, 5, 10)
def comparisons(a, b, c):
    r = [a < b < c, a == b != c, a is None, b is not a, a in (1, 2), c not in [10]]
    if a < b < c and not (a > b or c < b):
        r.append("inside")
    return r, a or (b and c), (a and 0) or "x", b if a else c, None if a > b else not c


@case(None)
@case(3)
def nones(x):
    if x is None:
        return "none"
    while x is not None:
        x = x - 1 if x else None
    assert x is None, "message"
    return x


@case(3)
def failing_assert(x):
    assert x > 5, f"too small: {x}"


@case()
def globals_and_imports():
    global SCALE
    import os.path as path
    from math import floor, pi

    before = SCALE
    SCALE = 3
    return before, path.join("a", "b"), floor(pi)


@case(2)
def reads_frame(x):
    y = x + 1
    get = lambda: y
    names = sorted(locals())
    return names, eval("x + y"), sorted(k for k in dir() if not k.startswith("_")), get()


@case(3)
def makes_class(x):
    class Local(Base):
        scale = x

        def get(self):
            return super().get() * self.scale + x

    def annotated(a: int, b: str = "s", *, c: float = x) -> str:
        return f"{a}{b}{c}"

    return Local(2).get(), annotated(1), annotated.__kwdefaults__


@case(3)
def generators(n):
    def gen(k):
        for i in range(k):
            yield i
        return "end"

    out = []
    for i in gen(n):
        for j in gen(i):
            out.append((i, j))
    return out, list(gen(2)), next(iter(gen(1)))


class Closing:
    """An iterator whose end is an exception of its own class."""

    def __init__(self, n):
        self.n = n

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.n -= 1
        if self.n < 0:
            raise LookupError("gone")
        return self.n


@case(3)
def iterator_raises(n):
    seen = []
    try:
        for i in Closing(n):
            seen.append(i)
    except LookupError as error:
        seen.append(str(error))
    return seen


@case(2)
def exception_groups(n):
    log = []
    try:
        raise ExceptionGroup("g", [ValueError(n), TypeError(n)])
    except* ValueError as group:
        log.append(len(group.exceptions))
    except* TypeError:
        log.append("type")
    return log


@case(1)
def conditional_method_chain(x):
    s = " ab " if x else "cd"
    return (s if x else "").strip().upper().replace("A", "b" if x else "c").join(["1", "2"])


@case(2)
def many_slots(x):
    a = b = c = d = e = f = g = h = i = j = k = l = m = n = o = p = q = r = x
    s, t, u = q + r, r * 2, p
    q, r = r, q
    for v in range(x):
        a, s = s + v, a
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u
