"""Numbers of the program that differ at each call: counters, steps, rates. What is computed of them is what eager computes."""

from __future__ import annotations

import math

import torch
from torch import nn

from repro_corpus.program import program

CALLS = 7


def counting(compile, body, *, start=0, x=None, calls=CALLS):
    """Results of several calls of a module that counts them, and the count afterwards."""

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = start

        def forward(self, x):
            return body(self, x)

    m = M()
    c = compile(m)
    out = []
    for _ in range(calls):
        try:
            out.append(c(torch.arange(3.0) if x is None else x))
        except (ArithmeticError, ValueError, RuntimeError) as e:
            out.append((type(e).__name__, str(e)))
    return out, m.n


@program("", "a count as factor, summand, divisor and in comparisons")
def count_as_operand(compile):
    def body(self, x):
        self.n += 1
        return x * self.n, self.n + x, x - self.n, self.n - x, x / self.n, self.n / x, x > self.n, x == self.n, x**self.n

    return counting(compile, body), counting(compile, body, start=-3)


@program("", "every dtype with whole numbers and with fractions, in place and not")
def dtypes(compile):
    kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.complex64)

    @compile
    def f(x, n, r):
        y = x.clone() + 1
        try:
            y *= n
        except RuntimeError as e:
            y = str(e)
        compared = None if x.is_complex() else (x < r, x >= n)
        return x * n, x + r, x - r, x / r, y, x.mul(n).add(r), torch.mul(x, r), compared, x == n

    out = []
    for kind in kinds:
        for shape in ((3,), ()):
            x = torch.full(shape, 3).to(kind)
            out.append([f(x, n, n / 3) for n in (1, 2, 5, 7, 11)])
    return out


@program("", "Python's arithmetic on a count: what it gives, and its errors")
def arithmetic(compile):
    def body(self, x):
        self.n += 1
        n = self.n
        warm = min(1.0, n / 4) * (1 - 0.9**n) + 0.5 * (1 + math.cos(math.pi * n / 5))
        return x * warm, x * (n // 2) + (n % 3) - (2**n), x * float(n) + int(n / 2) + abs(-n) + round(n / 3, 1), x * (n & 1) + (n << 2)

    def raising(self, x):
        self.n += 1
        return x * (10 / (self.n - 4)), x + math.sqrt(3 - self.n)

    return counting(compile, body), counting(compile, raising, calls=9), counting(compile, raising, start=-2, calls=9)


@program("", "branches on a count change where they change in eager")
def branches(compile):
    def body(self, x):
        self.n += 1
        if self.n > 4:
            x = x * 2
        if not self.n % 3:
            x = x - self.n
        if self.n - 5:
            x = x + 1
        return x * self.n if 2 <= self.n < 6 else x

    def raising(self, x):
        self.n += 1
        return x * 2 if 10 / (self.n - 4) > 3 else x + 1

    return [counting(compile, b, start=s, calls=10) for b in (body, raising) for s in (0, -3)]


@program("", "a count in sizes, indices, strings, loops, keys, and as a result")
def values_needed(compile):
    def body(self, x):
        self.n += 1
        total = x * self.n
        for i in range(self.n):
            total = total + i
        return total[self.n % 3], x[: self.n], torch.full((self.n,), self.n), f"{self.n}", {self.n: 1}, self.n, [self.n * 2.5], bool(self.n)

    return counting(compile, body, calls=5)


@program("", "numbers beyond 64 bits, infinite, not a number, negative zero")
def extremes(compile):
    @compile
    def f(x, n):
        try:
            return x * n, x + n * 2, n * 2
        except (RuntimeError, OverflowError) as e:
            return type(e).__name__

    x = torch.tensor([1.0, -2.0])
    whole = [f(x, n) for n in (1, 2, 3, 2**40 + 1, 2**62, 2**70, -(2**63), 4)]
    return whole, [f(x, r) for r in (1.0, 0.5, 0.25, math.inf, -math.inf, math.nan, -0.0, 0.0, 1e300, 1e-310)]


@program("", "a number that becomes one of another type, and back")
def types_change(compile):
    class Whole(int):
        pass

    @compile
    def f(x, n):
        return x * n, n + 1, type(n).__name__

    return [f(torch.arange(3), n) for n in (1, 2, 3, 4, 5.0, 5, True, 6, 2.5, Whole(3), 7, 8.5, False)]


@program("", "a step over a break, a count in a closure, a global, a dict, a class and an object")
def places(compile):
    count, d = 0, {"n": 0}
    namespace = {"n": 0}
    exec("def g(x):\n    global n\n    n += 1\n    return x * n\n", namespace)

    class Box:
        n = 0

    class Own:
        def __init__(self):
            self.n = 0

    own, g = Own(), compile(namespace["g"])

    @compile
    def f(x, step):
        nonlocal count
        count += 1
        d["n"] += 2
        Box.n += 3
        own.n += 4
        y = x * count
        print(step)
        return y + d["n"] * x, x - Box.n, x * own.n, x * step

    return [(f(torch.ones(2), i), g(torch.ones(2))) for i in range(CALLS)], count, d, Box.n, own.n, namespace["n"]


@program("", "gradients through numbers that change, and an optimiser's rate that does")
def gradients(compile):
    m = nn.Linear(2, 1)
    nn.init.constant_(m.weight, 0.5)
    nn.init.constant_(m.bias, 0.1)

    @compile
    def loss(x, step, rate):
        return ((m(x) * step - rate) ** 2).mean() * rate

    @compile
    def update(rate):
        with torch.no_grad():
            for p in m.parameters():
                p -= p.grad * rate
                p.grad = None

    out = []
    for i in range(CALLS):
        y = loss(torch.ones(2, 2), i, 1 / (i + 1))
        y.backward()
        out.append((y, m.weight.grad))
        update(0.1 * 0.5**i)
    return out, m.weight


@program("", "two numbers that change together and apart, and one that is both in the graph and a size")
def several(compile):
    @compile
    def f(x, a, b):
        return x * a + x * b, x * (a + b), x.expand(a, 2) * a, a - b

    return [f(torch.ones(2), a, b) for a, b in ((1, 1), (2, 1), (3, 1), (4, 2), (4, 3), (4, 4), (1, 5), (6, 6))]


@program("", "under a default dtype, inference mode and autocast that change between the calls")
def surroundings(compile):
    @compile
    def f(x, n):
        return x * n, x + n / 3

    out = [f(torch.arange(3), i) for i in range(4)]
    torch.set_default_dtype(torch.float64)
    try:
        out += [f(torch.arange(3), i) for i in range(4)]
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode():
        out += [f(torch.arange(3), i) for i in range(4)]
    with torch.autocast("cpu"):
        return [*out, *(f(torch.arange(3.0), i) for i in range(4))]


@program("", "numbers that change are read by the code of an autograd.Function")
def counters_in_functions(compile):
    class Scaled(torch.autograd.Function):
        scale = 1.0
        shift = 0

        @staticmethod
        def forward(ctx, x, factor):
            return x * factor + Scaled.shift

        @staticmethod
        def backward(ctx, grad):
            return grad * Scaled.scale * 2, None

    def f(x, factor):
        return (Scaled.apply(x, factor) * factor).sum()

    f = compile(f)
    found = []
    for i in range(6):
        Scaled.scale, Scaled.shift = 1.0 + i, i
        x = torch.ones(3, requires_grad=True)
        y = f(x, 1.0 + i)
        y.backward()
        found.append((y.detach(), x.grad))
    return found


@program("", "numbers that change are read by checkpointed code and by functions under transforms")
def counters_in_regions(compile):
    from torch.utils.checkpoint import checkpoint

    class Holder:
        step = 0

    holder = Holder()

    def block(x):
        return (x * holder.step).sin() + holder.step

    @compile
    def f(x):
        holder.step += 1
        y = checkpoint(block, x, use_reentrant=False)
        return y + torch.func.grad(lambda t: (t * holder.step).sum())(x) + torch.vmap(lambda t: t * holder.step)(x)

    found = []
    for _ in range(6):
        x = torch.ones(3, requires_grad=True)
        y = f(x)
        y.sum().backward()
        found.append((y.detach(), x.grad))
    return found
