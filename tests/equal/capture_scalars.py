"""Values of tensors in Python: item, tolist, nonzero, min and max, legacy constructors, iterators, counters of modules."""

from __future__ import annotations

import torch
from torch import nn

import dynamo
from repro_corpus.program import program


@program("", "item as a factor")
def item_factor(compile):
    @compile
    def f(x):
        s = x.sum().item()
        return x * s + 1, s

    return f(torch.arange(3.0)), f(torch.ones(3))


@program("", "item under capture_scalar_outputs")
def item_captured(compile):
    @compile
    def f(x, i):
        s = x.sum().item()
        n = i.max().item()
        return x * s + n, s, n

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(3.0), torch.tensor([1, 2])), f(torch.ones(3), torch.tensor([5, 2]))


@program("", "arithmetic, comparison and formatting of an item under capture_scalar_outputs")
def item_arithmetic(compile):
    @compile
    def f(x):
        s = x.sum().item()
        t = s * 2 + 1
        return x + t, t, s > 1, f"{s}", int(s), round(s, 1), -s, divmod(s, 2)

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(3.0)), f(torch.zeros(3))


@program("", "a branch on an item under capture_scalar_outputs")
def item_branch(compile):
    @compile
    def f(x):
        s = x.sum().item()
        if s > 1:
            return x * s
        return x - s

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(3.0)), f(torch.zeros(3))


@program("", "an item as a size under capture_scalar_outputs")
def item_size(compile):
    @compile
    def f(n):
        k = n.item()
        torch._check(k >= 0)
        return torch.zeros(k) + 1, torch.arange(k)

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.tensor(3)), f(torch.tensor(4))


@program("", "an item as an index and in a slice under capture_scalar_outputs")
def item_index(compile):
    @compile
    def f(x, n):
        k = n.item()
        return x[k], x[:k], x.narrow(0, 0, k)

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(5.0), torch.tensor(3)), f(torch.arange(5.0), torch.tensor(1))


@program("", "tolist under capture_scalar_outputs")
def tolist_captured(compile):
    @compile
    def f(x, i):
        a, b = i.tolist()
        return x * a + b, x.split([a, b])

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.arange(5.0), torch.tensor([2, 3])), f(torch.arange(5.0), torch.tensor([1, 4]))


@program("", "float() and int() and bool() of tensors under capture_scalar_outputs")
def numbers_captured(compile):
    @compile
    def f(x):
        return x + float(x[0]), x * int(x[1]), bool(x[2])

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.tensor([0.5, 2.5, 0.0]))


@program("", "an item of every dtype under capture_scalar_outputs")
def item_dtypes(compile):
    @compile
    def f(*xs):
        return [x.item() for x in xs], xs[0] * xs[1].item(), xs[1] * xs[0].item(), xs[2] + xs[0].item()

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.tensor(2, dtype=torch.int8), torch.tensor(1.5, dtype=torch.float64), torch.tensor(True), torch.tensor(1 + 2j))


@program("", "nonzero, masks, unique under capture_dynamic_output_shape_ops")
def dynamic_shapes(compile):
    @compile
    def f(x):
        return x.nonzero(), x[x > 1], torch.unique(x), torch.masked_select(x, x < 2) * 2, torch.where(x)

    with dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return f(torch.arange(4.0)), f(torch.tensor([0.0, 5, 5]))


@program("", "nonzero without the option")
def nonzero_plain(compile):
    @compile
    def f(x):
        n = torch.nonzero(x > 1)
        return n.shape, x[n[:, 0]] * 2

    return f(torch.arange(4.0)), f(torch.tensor([0.0, 5, 5, 0]))


@program("", "min and max of tensors by Python's functions")
def builtin_min_max(compile):
    @compile
    def f(a, b):
        return max(a, b) * 2, min(a, b), max(a, 1.0), min([a, b]), max(a, b, key=lambda t: -t)

    return f(torch.tensor(2.0), torch.tensor(3.0)), f(torch.tensor(5.0), torch.tensor(3.0))


@program("", "max of the elements of a vector")
def builtin_max_of_vector(compile):
    @compile
    def f(x):
        return max(x) + 1, min(x), max(*x), sum(x)

    return f(torch.tensor([1.0, 3, 2]))


@program("", "max of several elements is ambiguous", raises="RuntimeError: Boolean value of Tensor with more than one")
def ambiguous_max(compile):
    @compile
    def f(a, b):
        return max(a, b)

    return f(torch.ones(3), torch.zeros(3))


@program("", "x.new(shape) and torch.Tensor(shape)")
def legacy_constructors(compile):
    @compile
    def f(x):
        a = x.new(2, 3).fill_(1)
        b = torch.Tensor(2, 3).zero_()
        c = x.new(x.shape).copy_(x)
        d = x.new([1, 2, 3])
        e = torch.Tensor([1, 2])
        g = torch.Tensor(x.size()).fill_(2)
        h = x.new()
        return a + 1, b, c, d * 2, e, g, h, torch.FloatTensor(2).zero_(), torch.Tensor(), x.new(torch.Size([2])).fill_(3)

    return f(torch.ones(2)), f(torch.ones(2, dtype=torch.float64))


@program("", "torch.Tensor of a tensor shares its memory")
def legacy_alias(compile):
    @compile
    def f(x):
        y = torch.Tensor(x)
        y += 1
        return y, x * 2, x.new(x)

    x = torch.zeros(3)
    return f(x), x


@program("", "new_tensor and new with numbers")
def legacy_new(compile):
    @compile
    def f(x):
        return x.new_tensor([1, 2]), x.new((2,)).shape, x.new_full((2,), 3), torch.LongTensor([1, 2]), torch.Tensor(3).shape

    return f(torch.ones(2, dtype=torch.int32))


@program("", "iterators over tuples cross a break")
def iterator_over_break(compile):
    @compile
    def f(xs):
        it = iter(xs)
        a = next(it)
        print("broken")
        b = next(it) * 2
        return a + b, list(it)

    return f((torch.ones(2), torch.zeros(2), torch.ones(1), 3)), f([torch.ones(2), torch.zeros(2), torch.ones(1)])


@program("", "iterators over tuples come in, are read to different ends, and go on outside")
def tuple_iterator_comes_in(compile):
    @compile
    def f(it, stop):
        out = [next(it)]
        if stop:
            return out
        print("broken")
        for x in it:
            out.append(x * 2)
            if len(out) > 2:
                break
        return out, next(it, None)

    its = [iter((torch.ones(2), torch.zeros(2), 3, 4, 5, 6)) for _ in range(2)]
    return f(its[0], True), f(its[0], False), list(its[0]), f(its[1], False), list(its[1]), f(iter((1,)), True)


@program("", "an empty iterator over a tuple, with and without a default")
def empty_tuple_iterator(compile):
    @compile
    def f(x, it):
        print("broken")
        y = next(it, x)
        try:
            next(it)
        except StopIteration:
            return y + 1
        return y

    return f(torch.ones(2), iter(())), f(torch.ones(2), iter((torch.zeros(2),))), f(torch.ones(2), iter((torch.zeros(2), 1)))


@program("", "enumerate, zip and reversed cross a break in their loop")
def loops_over_break(compile):
    @compile
    def f(xs):
        out = []
        for i, (x, y) in enumerate(zip(xs, reversed(xs))):
            print(i)
            out.append(x + y * i)
        return out

    return f((torch.ones(2), torch.zeros(2), torch.ones(2)))


@program("", "map, filter, chain, islice and dict views cross a break")
def lazy_iterators_over_break(compile):
    import itertools

    @compile
    def f(xs, d):
        m = map(lambda x: x * 2, xs)
        c = itertools.chain(xs, (5,))
        s = itertools.islice(iter(xs), 1, None)
        k = iter(d.items())
        first = next(m), next(c), next(s), next(k)
        print("broken")
        return first, list(m), list(c), list(s), list(k)

    return f((torch.ones(2), torch.zeros(2), torch.full((2,), 3.0)), {"a": torch.ones(1), "b": 2})


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        self.calls += 1
        return self.linear(x)


def constant(m):
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
    return m


@program("", "a module that counts its calls")
def counting_module(compile):
    m = constant(Counter())
    c = compile(m)
    out = [c(torch.ones(1, 2)) for _ in range(12)]
    return out, m.calls


@program("", "a counter that is part of the result")
def counter_in_result(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n = self.n + 1
            return x * self.n

    m = M()
    c = compile(m)
    return [c(torch.ones(2)) for _ in range(10)], m.n


@program("", "a counter that decides a branch")
def counter_in_branch(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            if self.n % 3 == 0:
                return x * 2
            return x

    m = M()
    c = compile(m)
    return [c(torch.ones(2)) for _ in range(12)], m.n


@program("", "a counter in a division by zero, in a product and in a mask")
def counter_arithmetic(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x, zero):
            self.n += 1
            if self.n & 1 and self.n * 2 > 3 and (self.n // 4) == 0:
                x = x + 1
            try:
                return x, self.n % zero
            except ZeroDivisionError:
                return x

    m = M()
    c = compile(m)
    return [c(torch.ones(2), 0) for _ in range(6)], m.n


@program("", "an object, a global and a dict that count")
def other_counters(compile):
    class State:
        steps = 0

    state, d = State(), {"n": 0}

    @compile
    def f(x):
        state.steps += 1
        d["n"] += 2
        return x + 1

    return [f(torch.ones(2)) for _ in range(10)], state.steps, d["n"]


@program("", "a lazy module in one graph")
def lazy_linear(compile):
    m = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))
    c = compile(m)
    with torch.no_grad():
        y = c(torch.ones(2, 4))
    constant(m)
    z = c(torch.ones(2, 4))
    z.sum().backward()
    return y.shape, z, [p.grad for p in m.parameters()], [type(x).__name__ for x in m]


@program("", "lazy convolution and batch norm, made inside another module")
def lazy_conv(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.LazyConv2d(3, 3)
            self.norm = nn.LazyBatchNorm2d()

        def forward(self, x):
            return self.norm(self.conv(x)).relu()

    m = M()
    c = compile(m)
    c(torch.ones(2, 2, 5, 5))
    constant(m)
    x = torch.arange(100.0).view(2, 2, 5, 5)
    return c(x), m.norm.running_mean, m.norm.num_batches_tracked


@torch.jit.script_if_tracing
def _scripted(x, n: int):
    for _ in range(n):
        x = x * 2
    return x


@program("", "a function under script_if_tracing")
def script_if_tracing(compile):
    @compile
    def f(x):
        return _scripted(x, 3) + 1

    return f(torch.ones(2))
