"""Functions under script_if_tracing, legacy constructors, NumPy's whole numbers, and what is put on classes later."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import program


@torch.jit.script_if_tracing
def doubled(x, n: int):
    for _ in range(n):
        x = x * 2
    return x


@torch.jit.script_if_tracing
def scaled(x, flag: bool = True, k: float = 2.0):
    if flag:
        return x * k
    return x


@torch.jit.script
def shifted(x, n: int):
    return x + n


@program("", "script_if_tracing with branches, defaults and keywords, in a module, nested; a scripted function")
def script_if_tracing(compile):
    class M(nn.Module):
        def forward(self, x):
            return doubled(scaled(x, k=0.5), 2)

    @compile(fullgraph=True)
    def f(x):
        return scaled(x), scaled(x, False), scaled(x, k=3.0), doubled(x, 0), torch.jit.is_scripting(), torch.jit.is_tracing()

    @compile
    def g(x):
        return shifted(x, 2) * 2, shifted(shifted(x, 1), n=3)

    x = torch.arange(3.0)
    return f(x), compile(M(), fullgraph=True)(x), g(x), torch.jit.trace(M(), x)(x)


@program("", "legacy constructors of sizes and of data, by every name")
def constructors(compile):
    @compile(fullgraph=True)
    def f(x):
        sizes = (
            torch.Tensor(2, 3).zero_(),
            torch.Tensor(x.shape).zero_(),
            torch.DoubleTensor(2, 2).zero_(),
            torch.IntTensor(x.size()).zero_(),
        )
        data = (
            torch.FloatTensor([1, 2]),
            torch.LongTensor([1]),
            torch.BoolTensor([True]),
            torch.FloatTensor((1.0, 2.0)),
            torch.Tensor([[1, 2]]),
        )
        return (
            sizes,
            data,
            torch.FloatTensor([x.size(0)]),
            torch.Tensor((2, 3)),
            torch.Tensor(),
            x.new(2, 2).zero_(),
            x.new([1, 2]),
            x.new(),
        )

    @compile
    def g(x):
        return torch.FloatTensor([x[0], 2]), torch.FloatTensor(np.ones(2, np.float32)), torch.Tensor([float(v) for v in x])

    return f(torch.ones(2)), f(torch.ones(3)), g(torch.arange(2.0))


@program("", "types by their legacy names")
def types(compile):
    @compile(fullgraph=True)
    def f(x):
        named = x.type(), isinstance(x, torch.FloatTensor), isinstance(x, torch.LongTensor)
        return named, x.type(torch.DoubleTensor), x.type("torch.IntTensor"), x.type(torch.int64), x.type_as(torch.LongTensor([1]))

    return f(torch.arange(3.0)), f(torch.arange(3))


@program("", "errors of legacy constructors")
def constructor_errors(compile):
    calls = (
        lambda x: torch.Tensor(2.5),
        lambda x: torch.FloatTensor("a"),
        lambda x: torch.LongTensor([1.5]),
        lambda x: x.new([[1], [2, 3]]),
        lambda x: torch.Tensor(-1),
        lambda x: torch.Tensor(x.double()),
    )
    out = []
    for call in calls:
        try:
            out.append(compile(call)(torch.ones(2)))
        except (RuntimeError, TypeError, ValueError) as e:
            out.append((type(e).__name__, str(e).partition("\n")[0]))
    return out


@program("", "NumPy's whole numbers as constants: indices, slices, sizes, dims, repeats")
def numpy_constants(compile):
    one, two = np.int64(1), np.uint8(2)

    @compile(fullgraph=True)
    def f(x):
        cut = x[one], x[:two], x[one:], x.view(-1)[two], x.narrow(0, 0, one)
        return cut, torch.zeros(two), x.expand(np.int32(2), -1), x.sum(np.int64(0)), x.roll(int(one)), [x * i for i in range(two)], x * one

    return f(torch.arange(3.0)), f(torch.arange(4.0))


@program("", "NumPy's whole numbers in Python: items and slices of lists, strings and tuples, ranges, repeats; those that are none")
def numpy_indices(compile):
    @compile(fullgraph=True)
    def f(x, n):
        rows = [x, x + 1, x + 2]
        return (
            rows[n],
            rows[:n],
            rows[-n:],
            "abc"[n],
            (1, 2, 3)[n:],
            [x * i for i in range(n, n + 2)],
            list(range(0, 9, n)),
            rows * n,
            {1: x}[n],
        )

    @compile
    def g(n):
        return [1, 2, 3][n]

    out = [f(torch.ones(2), n) for n in (np.int64(1), np.int8(1), np.int16(1))]
    for n in (np.float64(1), np.float32(1)):
        try:
            out.append(g(n))
        except TypeError as e:
            out.append(str(e))
    return out


@program("", "NumPy's numbers as arguments: indices, factors, sizes; they change between calls")
def numpy_arguments(compile):
    @compile
    def f(x, n, s):
        return x[n], x * n, x * s, x + s, s + 1, n + 1, torch.full((3,), s), x.narrow(0, 0, n), type(n).__name__, type(s * 2).__name__

    x = torch.arange(3.0)
    rows = [(np.int64(1), np.float64(0.5)), (np.int32(2), np.float32(0.25)), *((np.int64(i % 3), np.float64(i / 3)) for i in range(10))]
    return [f(x, n, s) for n, s in rows]


@program("", "methods, properties and values put on Tensor, on Parameter and on nn.Module later, and taken away")
def added_to_classes(compile):
    @compile
    def f(x):
        return x.capture_method(2) if hasattr(x, "capture_method") else x - 1

    @compile
    def g(x):
        try:
            return x.capture_value + 1
        except AttributeError as e:
            return str(e)

    @compile
    def h(m, x):
        return m.capture_forward(x) if hasattr(m, "capture_forward") else m(x)

    x, m = torch.ones(3), nn.ReLU()

    def all_of():
        return f(x), g(x), g(nn.Parameter(x).detach()), h(m, x)

    out = [all_of()]
    try:
        torch.Tensor.capture_method = lambda self, k: self * k
        torch.Tensor.capture_value = property(lambda self: self.sum())
        nn.Module.capture_forward = lambda self, x: self(x) * 5
        out.append(all_of())
        torch.Tensor.capture_method = lambda self, k: self * k * 10
        torch.Tensor.capture_value = 3
        nn.ReLU.capture_forward = lambda self, x: x - 7
        out.append(all_of())
    finally:
        del torch.Tensor.capture_method, torch.Tensor.capture_value, nn.Module.capture_forward, nn.ReLU.capture_forward
    return [*out, all_of()]


@program("", "functions of F and torch replaced while modules of torch use them")
def replaced_under_modules(compile):
    @compile
    def f(x):
        return F.relu(x) + torch.relu(x) + x.relu() + F.gelu(x)

    m = compile(nn.Sequential(nn.ReLU(), nn.GELU()))
    x = torch.tensor([-1.0, 2.0])
    out, old = [f(x), m(x)], (F.relu, F.gelu, torch.relu)
    try:
        F.relu = lambda x, inplace=False: x * 100
        out += [f(x), m(x)]
        F.gelu = lambda x, approximate="none": x + 1000
        torch.relu = lambda x: x - 10000
        out += [f(x), m(x)]
    finally:
        F.relu, F.gelu, torch.relu = old
    return [*out, f(x), m(x)]


@program("", "property, static method and class method replaced on, added to and taken from a middle class")
def middle_descriptors(compile):
    class Base:
        @property
        def a(self):
            return 1

        @staticmethod
        def b():
            return 10

        @classmethod
        def c(cls):
            return 100

    class Middle(Base):
        pass

    class Leaf(Middle):
        pass

    leaf = Leaf()

    @compile
    def f(x, leaf):
        return x * leaf.a + leaf.b() + leaf.c() + Leaf.b() + Middle.c()

    def now():
        return f(torch.ones(2), leaf)

    out = [now()]
    Middle.a = property(lambda self: 2)
    out.append(now())
    Middle.b = staticmethod(lambda: 20)
    out.append(now())
    Middle.c = classmethod(lambda cls: 200 if cls is Middle else 300)
    out.append(now())
    Middle.a, Leaf.b = 7, staticmethod(lambda: 30)
    out.append(now())
    del Middle.a, Middle.b, Middle.c
    out.append(now())
    Base.a = property(lambda self: 9)
    return [*out, now()]
