"""What differs between Python versions: newer syntax, and old syntax that compiles to something else.

Cases in newer syntax exist only where the running Python can parse them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.capture.language import Case, check, parsed_here, since

LISTS = ["t(3), [1, 2, 3]", "t(3), [4, 5, 6]"]

# -- newer syntax ----------------------------------------------------------------------------------------------------------------

TYPE_PARAMETERS = [  # PEP 695, 3.12
    Case(
        "generic function",
        """
        def g[T: int, *Ts, **P](x: T, *rest: *Ts) -> T:
            return x * len(rest)

        def f(x):
            return g(x, 1, 2), [p.__name__ for p in g.__type_params__]
        """,
        graphs=["mul"],
    ),
    Case(
        "generic methods",
        """
        class A:
            def m[T](self, y: T) -> T:
                return y * 2

            @classmethod
            def c[T](cls, y: T) -> T:
                return y * 3

            @staticmethod
            def s[T](y: T) -> T:
                return y * 4

        def f(x):
            return A().m(x) + A.c(x) + A.s(x)
        """,
        graphs=["mul mul add mul add"],
    ),
    Case(
        "generic classes",
        """
        class A[T]:
            def __init__(self, v: T) -> None:
                self.v = v

            def get(self) -> T:
                return self.v

        class B[T](A[T]):
            def get(self):
                return super().get() * 2

        def f(x):
            return A(x).get() + B(x).get() + B[int](x).get()
        """,
        graphs=["mul add mul add"],
    ),
    Case(
        "generic module",
        """
        class M[T](nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x: T) -> T:
                return self.linear(x).relu()

        m = M[int]()

        def f(x):
            return m(x)
        """,
        graphs=["linear relu"],
    ),
    Case(
        "generic dataclass",
        """
        import dataclasses

        @dataclasses.dataclass
        class P[T]:
            a: T
            b: int = 2

        def f(x):
            p = P(x)
            q = dataclasses.replace(p, b=5)
            return p.a * p.b + q.b, q
        """,
        graphs=["mul add"],
    ),
    Case(
        "type alias",
        """
        type V = list[int]
        type R[T] = dict[T, R]

        def f(x):
            return x + 1, V.__name__, V.__value__, R.__name__
        """,
        graphs=["add"],
    ),
    Case(
        "generic function made in the frame",
        """
        def f(x):
            k = 3
            y = x + k

            def g[T](z: T, *, factor=k) -> T:
                nonlocal k
                k += 1
                return z * factor * k

            return g(y), k
        """,
        graphs=["add", "mul mul"],
        breaks=["DD016:5"],
    ),
    Case(
        "generic function with a bound, returned",
        """
        def f(x):
            bound = int

            def g[T: bound, U: (int, str)](y: T, z: U = 3) -> T:
                return y + 1

            return g(x), g.__name__, g.__type_params__[0].__bound__, g.__type_params__[1].__name__
        """,
        graphs=["add"],
        breaks=["DD016:4"],
    ),
    Case(
        "type alias made in the frame",
        """
        def f(x):
            x = x + 1
            type V = list[int]
            return x * 2, V.__name__, str(V.__value__)
        """,
        graphs=["add", "mul"],
        breaks=["DD016:3"],
    ),
]

TYPE_PARAMETER_DEFAULTS = [  # PEP 696, 3.13
    Case(
        "generic function with defaults",
        """
        def g[T = int, *Ts = *tuple[int], **P = [int]](x: T) -> T:
            return x * 2

        class A[T = int]:
            def m(self, x: T) -> T:
                return x + 1

        def f(x):
            return g(x), A().m(x)
        """,
        graphs=["mul add"],
    ),
    Case(
        "made in the frame",
        """
        def f(x):
            def g[T = int](y: T) -> T:
                return y * 2

            return g(x)
        """,
        graphs=["mul"],
        breaks=["DD016:2"],
    ),
]

F_STRINGS = [  # PEP 701, 3.12
    Case(
        "any expression in braces",
        """
        def f(x):
            d = {"a": 1}
            s = f"{d["a"]} {'nested ' + f"{1 + f"{2}".__len__()}"}"
            t = f"{
                d['a']  # with a comment
            :>5}"
            return x + len(s), s, t, f"{'\\n'.join(['a', 'b'])}", f"{d['a']!r:>{3 + 2}}{{}}"
        """,
        graphs=["add"],
    ),
    Case(
        "break in braces",
        """
        def f(x):
            d = {"a": 1}
            y = x + 1
            s = f"{d["a"]} {print("in")} {y.shape[0]:>{d["a"] + 3}}"
            return y * len(s), s
        """,
        graphs=["add", "mul"],
        breaks=["DD004:4"],
    ),
]


@pytest.mark.parametrize(
    "case",
    parsed_here(TYPE_PARAMETERS + TYPE_PARAMETER_DEFAULTS + F_STRINGS)
    or [Case("no newer syntax here", "def f(x): return x + 1", graphs=["add"])],
    ids=lambda case: case.name,
)
def test_newer_syntax(case: Case) -> None:
    case.check()


# -- comprehensions: their own frame before 3.12, part of the function since -------------------------------------------------------

COMPREHENSIONS = [
    Case(
        "break in the element",
        """
        def f(x, items):
            i = x + 10
            out = [x * i + x.sum().item() for i in items]
            return out, i
        """,
        inputs=LISTS,
        breaks=["DD003:3"],
    ),
    Case(
        "break in the condition",
        """
        def f(x, items):
            y = x + 1
            out = [y * i for i in items if not print(i)]
            return out, y
        """,
        inputs=LISTS,
        breaks=["DD004:3"],
    ),
    Case(
        "nested",
        """
        def f(x, items):
            return [[x + i + j + x.sum().item() for i in items] for j in range(2)], items
        """,
        inputs=LISTS,
        breaks=["DD003:2"],
    ),
    Case(
        "dict and set",
        """
        def f(x, items):
            return {i: x * i + x.sum().item() for i in items}, sorted({print(i) or i + 1 for i in items})
        """,
        inputs=LISTS,
        breaks=["DD003:2", "DD004:2"],
    ),
    Case(
        "loop variable unbound outside",
        """
        def f(x, items):
            out = [x * i + int(x.sum().item()) for i in items]
            if len(out) > 100:
                i = 3
            try:
                return out, i
            except UnboundLocalError as e:
                return out, str(e)
        """,
        inputs=LISTS,
        breaks=["DD003:2"],
    ),
    Case(
        "loop variable in a closure",
        """
        def f(x, items):
            made = [lambda: x * i for i in items if x.sum().item() is not None]
            return made[0](), made[-1]()
        """,
        inputs=LISTS,
        breaks=["DD003:2"],
    ),
    Case(
        "exception restores the outer variable",
        """
        def f(x, items):
            i = "outer"
            try:
                out = [x / (1 if not print(i) and i < 2 else int("q")) for i in items]
            except ValueError as e:
                return x + 1, i, str(e)
            return out, i
        """,
        inputs=["t(3), [1, 2]", "t(3), [1, 1]"],
        breaks=["DD004:4"],
    ),
    Case(
        "assignment expression",
        """
        def f(x, items):
            out = [last := x * i for i in items if not print(i)]
            return out, last
        """,
        inputs=LISTS,
        breaks=["DD004:2"],
    ),
    Case(
        "truth of a comparison",
        """
        def f(x, items):
            return [x * i for i in items if x.sum() * i > 0]
        """,
        inputs=LISTS,
        breaks=["DD001:2"],
    ),
    Case(
        "in a method that calls super()",
        """
        class A:
            def m(self, x):
                return x + 1

        class B(A):
            def m(self, x):
                try:
                    return [super().m(x) for _ in range(2)]
                except (TypeError, RuntimeError) as e:
                    return x * 2, str(e)

        def f(x, items):
            return B().m(x)
        """,
        inputs=LISTS,
        graphs=since((3, 12), ["add add"], ["mul"]),
    ),
]


@pytest.mark.parametrize("case", COMPREHENSIONS, ids=lambda case: case.name)
def test_comprehensions(case: Case) -> None:
    case.check()


# -- one meaning, other instructions ---------------------------------------------------------------------------------------------

INSTRUCTIONS = [
    Case(
        "comparison tested at once",
        """
        def f(x):
            y = x.sin()
            if y.sum() > 0:
                return y + 1
            return y - 1
        """,
        inputs=["torch.ones(3)", "-torch.ones(3)"],
        graphs=["sin sum gt", "add", "sub"],
        breaks=["DD001:3"],
    ),
    Case(
        "comparison tested on a stack",
        """
        def f(x):
            return x + (1 if x.sum() > 0 else 2) * (3 if (x * 2).sum() < 0 else 4)
        """,
        inputs=["torch.ones(3)", "-torch.ones(3)"],
        graphs=["sum gt", "mul sum lt", "add"],
        breaks=["DD001:2"],
    ),
    Case(
        "comparison tested in a try",
        """
        def f(x):
            try:
                if x > 0:
                    return x + 1
            except RuntimeError as e:
                return x - 1, str(e)
        """,
        breaks=["DD001:3"],
    ),
    Case(
        "comparison tested in a with",
        """
        def f(x):
            with torch.no_grad():
                y = x * 2
                if x.sum() > 0:
                    return y + 1
                z = y - 1
            return z
        """,
        inputs=["torch.ones(3)", "-torch.ones(3)"],
        breaks=["DD001:4"],
    ),
    Case(
        "comparison that gives an object",
        """
        class Answer:
            def __init__(self, value):
                self.value = value

            def __bool__(self):
                print("asked")
                return self.value

        class A:
            def __lt__(self, other):
                return Answer(other == 3)

        def f(x):
            a = A()
            if a < 3:
                x = x + 1
            if a < 4:
                x = x * 10
            return x
        """,
        graphs=["add"],
        breaks=["DD004:6"],
    ),
    Case(
        "pairs of variables behind the fifteenth",
        """
        def f(x):
            a = b = c = d = e = g = h = i = j = k = m = n = o = p = 1
            q, r = 2, 3
            s, t = q, r
            r, q = s + 1, t + 2
            print("in")
            a, r = r, a
            return x + a + r, q, r, a, s, t
        """,
        graphs=["add add"],
        breaks=["DD004:6"],
    ),
    Case(
        "super in all its forms",
        """
        class A:
            k = 5

            def m(self, x, *, y=1):
                return x + y

            @classmethod
            def c(cls):
                return cls.__name__

            @property
            def p(self):
                return 7

        class B(A):
            k = 6

            def m(self, x, *, y=2):
                return super().m(x, y=y) + super(B, self).m(x) + super().k + super().p

            @classmethod
            def c(cls):
                return super().c() + super(B, cls).c()

            def own(self):
                s = super()
                return s.__class__.__name__, s.__self__ is self, s.__thisclass__.__name__, s.__self_class__.__name__

            def wrong(self):
                try:
                    super(int, self).m
                except TypeError as e:
                    return str(e)

        def f(x):
            b = B()
            return b.m(x), B.c(), b.own(), b.wrong()
        """,
        graphs=["add add add add add"],
    ),
    Case(
        "super across breaks",
        """
        class A:
            def m(self, x):
                return x + 1

        class B(A):
            def m(self, x):
                y = super().m(x)
                print("one")
                z = super().m(y)
                return super(B, self).m(z)

        b = B()

        def f(x):
            return B.m(b, x)
        """,
        graphs=["add", "add add"],
        breaks=["DD004:8"],
        fullgraph=False,
    ),
    Case(
        "StopIteration that leaves a generator",
        """
        def g(x):
            yield x
            raise StopIteration(5)

        def f(x):
            seen = []
            try:
                for v in g(x):
                    seen.append(v + 1)
            except RuntimeError as e:
                return seen, str(e), e.__cause__.value, e.__context__ is e.__cause__, e.__suppress_context__
        """,
        graphs=["add"],
    ),
    Case(
        "close() of a generator that returns",
        """
        def g(x):
            try:
                yield x
            except GeneratorExit:
                return 5

        def f(x):
            it = g(x)
            suspended = it.gi_suspended
            next(it)
            return x + 1, suspended, it.gi_suspended, it.gi_code.co_name, it.close(), it.close()
        """,
        graphs=["add"],
    ),
    Case(
        "match statement and its complaints",
        """
        class Good:
            __match_args__ = ("z",)
            z = [1, 2]

        class ListOfNames:
            __match_args__ = ["z"]

        class Numbers:
            __match_args__ = (3,)

        other = 3

        def f(x, v):
            try:
                match v:
                    case Good(z=[a, b]) | [a, b, *_]:
                        return x + a, b
                    case {"k": k, **rest} if k:
                        return x * k, rest
                    case ListOfNames(a) | Numbers(a):
                        return x
                    case int(a, b):
                        return x
                    case str():
                        match v:
                            case other():
                                return x
            except TypeError as e:
                return x - 1, str(e)
        """,
        inputs=[f"t(3), {v}" for v in ("Good()", "[1, 2, 3]", "{'k': 2, 'm': 3}", "ListOfNames()", "Numbers()", "3", "'s'")],
        compiles=None,
    ),
]


@pytest.mark.parametrize("case", INSTRUCTIONS, ids=lambda case: case.name)
def test_instructions(case: Case) -> None:
    case.check()


# -- other meanings --------------------------------------------------------------------------------------------------------------

MEANINGS = [
    Case(
        "locals() is one dict before 3.13",
        """
        def f(x):
            a = 1
            d = locals()
            b = 2
            e = locals()
            e["a"] = 7
            return x + 1, sorted(d), sorted(e), a, d["a"], d is e
        """,
        graphs=["add"],
    ),
    Case(
        "slices are hashable since 3.12",
        """
        def f(x):
            try:
                return x[1:] + 1, {slice(1, 3): 1}[slice(1, 3)], hash(slice(1, 3)) == hash(slice(1, 3))
            except TypeError as e:
                return x[1:] + 1, str(e)
        """,
        graphs=since((3, 12), ["getitem add"], ["getitem add getitem add"]),
    ),
    Case(
        "sums of floats are compensated since 3.12",
        """
        def f(x):
            return x * sum([0.1] * 10), sum([0.1, 1e100, 1.0, -1e100]), sum([1, 0.1, 2, 1e100, 3, -1e100])
        """,
        graphs=["mul"],
    ),
    Case(
        "names and docs of functions made in the frame",
        """
        def f(x):
            def g(a, b=1, *c, d, e=2, **k) -> int:
                "doc"
                return a
            h = lambda: "no doc"
            return x + 1, g.__name__, g.__qualname__, g.__doc__, g.__defaults__, g.__kwdefaults__, g.__annotations__, h.__doc__
        """,
        graphs=["add"],
    ),
    Case(
        "what errors say and carry",
        """
        class A:
            __slots__ = ("a",)

        class Enters:
            def __enter__(self):
                return 1

        def unset(): return A().a
        def no_dict(): A().b = 1
        def no_slot_value(): del A().a
        def no_name(): return undefined
        def no_cell():
            def g(): return w
            del w
            w = 1
        def no_exit():
            with Enters():
                pass
        def no_enter():
            with A():
                pass
        def no_container(): return 1 in A()
        def no_text(): return A() in "abc"
        def no_import():
            from math import nothing
        def starred(): return [*1]

        def f(x):
            seen = []
            for g in (unset, no_dict, no_slot_value, no_name, no_cell, no_exit, no_enter, no_container, no_text, no_import, starred):
                try:
                    g()
                except Exception as e:
                    seen.append((g.__name__, type(e).__name__, str(e), getattr(e, "name", 0)))
            return x + 1, seen
        """,
        graphs=["add"],
    ),
]


@pytest.mark.parametrize("case", MEANINGS, ids=lambda case: case.name)
def test_meanings(case: Case) -> None:
    case.check()


# -- the library -----------------------------------------------------------------------------------------------------------------

LIBRARY = {
    "itertools.batched": "list(itertools.batched([1, 2, 3, 4, 5], 2))",
    "math.sumprod": "math.sumprod([1, 2], [3, 4.5])",
    "math.fma": "math.fma(2.0, 3.0, 4.0)",
    "int.is_integer": "(1).is_integer(), (1.5).is_integer()",
    "copy.replace": "copy.replace(P(1, 2), b=4), copy.replace(D(1), b=4)",
    "itertools.pairwise": "list(itertools.pairwise([1, 2, 3]))",
}


def _has(name: str) -> bool:
    module, _, attribute = name.partition(".")
    return hasattr(int if module == "int" else __import__(module), attribute)


@pytest.mark.parametrize("name", list(filter(_has, LIBRARY)))
def test_library(name: str) -> None:
    check(
        f"""
        import collections, copy, dataclasses, itertools, math

        P = collections.namedtuple("P", "a b")

        @dataclasses.dataclass
        class D:
            a: int
            b: int = 3

        def f(x):
            return x + 1, {LIBRARY[name]}
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add"],
    )


# -- while the interpreter is watched ----------------------------------------------------------------------------------------------

WATCHED = """
import sys

import torch

import dynamo

lines = []


def watch():
    if sys.version_info < (3, 12):
        sys.settrace(lambda frame, event, arg: lines.append((frame.f_code.co_name, frame.f_lineno)) or None)
        return
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(3, "test")
    sys.monitoring.register_callback(3, events.LINE, lambda code, line: lines.append((code.co_name, line)))
    sys.monitoring.register_callback(3, events.CALL, lambda *args: None)
    sys.monitoring.set_events(3, events.LINE | events.CALL | events.INSTRUCTION | events.BRANCH | events.PY_YIELD | events.RAISE)


def g(x):
    for i in range(3):
        yield x * i


def f(x, items):
    y = [x * i for i in items]
    print("break", x.sum().item())
    z = [v + 1 for v in g(x) if not print("in")]
    try:
        with torch.no_grad():
            print("with")
            raise ValueError(1)
    except ValueError:
        z.append(x + 3)
    if x.sum() > 0:
        z.append(x)
    return y, z


compiled = dynamo.compile(f)
x = torch.ones(3)
eager = f(x, [1, 2])
watch()
for _ in range(2):
    for left, right in zip(eager, compiled(x, [1, 2]), strict=True):
        assert all(map(torch.equal, left, right)) and len(left) == len(right)
assert any(name.startswith("f") for name, _ in lines)
print("done")
"""


def test_watched() -> None:
    """Code that sys.monitoring has instrumented is captured and resumed as any other."""
    ran = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=False)
    assert ran.stdout.endswith("done\n"), ran.stderr
