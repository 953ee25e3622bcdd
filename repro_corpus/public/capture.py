"""Programs after public reports about what graphs capture: NumPy, numbers of tensors, custom operators, iterators, modules."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import dynamo
from repro_corpus.program import program


@program("pytorch#111370", "tolist of an array made inside")
def array_tolist(compile):
    @compile
    def f(v):
        return np.array([0]).tolist(), v.tolist(), (v * 2).tolist()

    return f(np.array([1, 2, 3]))


@program("pytorch#112335", "an array of a list of arrays")
def array_of_arrays(compile):
    @compile
    def f(xs):
        return np.asarray(xs), np.array([np.array([1, 2]), np.array([2, 3])])

    return f([np.array([1, 2]), np.array([3, 4])])


@program("pytorch#124247", "numpy() of a result under inference")
def numpy_under_no_grad(compile):
    @compile
    def f(x):
        return torch.add(x, 1).numpy(), torch.relu(x.detach()).numpy()

    with torch.no_grad():
        return f(torch.ones(2, 3, requires_grad=True))


@program("pytorch#106316", "an array is the last thing before the return")
def numpy_returned(compile):
    return compile(lambda a: a.numpy())(torch.arange(4.0))


@program("pytorch#140884", "comparing an array with a number")
def array_comparison(compile):
    @compile
    def f(y):
        return y >= 3, y == 2, y != y, ~(y > 1)

    return f(np.arange(5))


@program("pytorch#118248", "a ufunc with out= gives that very array back")
def ufunc_out(compile):
    @compile
    def f():
        x = np.arange(5)
        out = np.empty((5,))
        return np.sin(x, out=out) is out, out

    return f()


@program("pytorch#129648", "a tensor made of nested lists of NumPy's numbers and arrays")
def tensor_of_nested_numbers(compile):
    @compile
    def f(r):
        rows = [[np.cos(r), np.sin(r)], [-np.sin(r), np.cos(r)]]
        return torch.tensor(rows), torch.Tensor(np.stack([np.stack([np.cos(r), np.sin(r)]), np.stack([r, r])]))

    return f(np.float64(0.5)), f(np.float32(0.25))


@program("quansight-labs/numpy_pytorch_interop#156", "an array beside one that is made by linspace")
def linspace_beside(compile):
    @compile
    def f(x):
        return x**2 + np.linspace(0, 1, 11), np.ones(11, dtype=np.float32) * x

    return f(np.ones(11)), f(np.ones(11, np.float32))


@program("pytorch#98510", "a function that is not torch's between two graphs")
def foreign_function(compile):
    @compile
    def f(x):
        y = np.fft.fft((x * 2).numpy()).real
        return torch.from_numpy(y) * 2

    return f(torch.arange(4.0)), f(torch.ones(4))


@program("pytorch#175855", "a list that grows while a generator iterates over it")
def growing_list(compile):
    @compile
    def f(x):
        vals = [x.sum()]

        def grow():
            for v in vals:
                if len(vals) < 3:
                    vals.append(v + 1)
                yield v

        return torch.stack(list(grow())).sum()

    return f(torch.ones(1))


@program("pytorch#196211", "iter of a partly consumed reversed iterator goes on where it was")
def reversed_goes_on(compile):
    @compile
    def f(x):
        it = reversed([x, x + 2, x + 5])
        last = next(it)
        return last - next(iter(it)), iter(it) is it

    return f(torch.tensor([3.0, 7.0]))


@program("pytorch#152262", "an exhausted iterator stays exhausted")
def exhausted(compile):
    @compile
    def f(x):
        out = []
        for it in (iter([1, 2]), reversed([1, 2]), iter((1, 2)), zip([1], [2], strict=True), enumerate([1]), map(abs, [1])):
            list(it)
            try:
                next(it)
            except StopIteration:
                out.append(x.sin())
        return out

    return f(torch.ones(1))


@program("pytorch#146359", "iterators that come in are advanced by what reads them")
def iterators_come_in(compile):
    @compile
    def f(x, z, e):
        iter(z)
        a, b = next(z)
        return x * a + b + next(e)[1], iter(e) is e

    z, e = zip([2, 1], [2, 3], strict=True), enumerate(range(3))
    return f(torch.ones(3), z, e), list(z), list(e)


@program("pytorch#130750", "map is lazy and no tuple")
def lazy_map(compile):
    seen = []

    def g(x):
        seen.append(len(seen))
        return x * 2

    @compile
    def f(xs):
        m = map(g, xs)
        return next(m), isinstance(m, tuple), type(m).__name__

    return f([torch.ones(2), torch.zeros(2)]), seen


@program("pytorch#133063", "extend with a generator that reads the list it extends")
def extend_reads_itself(compile):
    layers = nn.ModuleList([nn.Identity() for _ in range(3)])

    @compile
    def f(x):
        y = [x, x]
        y.extend(m(y[-1]) + 1 for m in layers)
        return y

    return f(torch.zeros(2))


@program("pytorch#93737", "a generator runs between the steps of the loop")
def generator_order(compile):
    @compile
    def f(x):
        def gen():
            for i in range(3):
                x.add_(1)
                yield x * i

        y = torch.zeros(2)
        for v in gen():
            y += v
            x.mul_(2)
        return y, x

    return f(torch.ones(2))


@program("pytorch#153389", "operators that write to rows of their arguments, and to an argument that is given back")
def writing_operators(compile):
    @torch.library.custom_op("capture_public::inplace", mutates_args={"a", "b"})
    def inplace(a: torch.Tensor, b: torch.Tensor) -> None:
        a.add_(1)
        b.add_(2)

    @torch.library.custom_op("capture_public::into", mutates_args={"out"})
    def into(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        out.copy_(a + b + 2)

    @compile
    def f(a, b, out):
        inplace(a, b)
        into(a[0], b[0], out)
        return out

    x = torch.arange(18.0).view(2, 3, 3)
    return f(x[0], x[1], torch.zeros(3)), x


@program("pytorch#130487", "an operator that writes to a transposed argument")
def writing_to_transposed(compile):
    @torch.library.custom_op("capture_public::bump", mutates_args={"x"})
    def bump(x: torch.Tensor) -> None:
        x.add_(torch.arange(x.numel()).view(x.shape))

    @compile
    def f(x):
        y = (x * 2).t()
        bump(y)
        bump(x.t())
        return y

    x = torch.zeros(2, 3)
    return f(x), x


@program("pytorch#187319", "two definitions of an operator that differ in what they write")
def operators_of_two_kinds(compile):
    def define(name, mutates):
        def impl(x: torch.Tensor) -> None:
            if mutates:
                x.add_(1)

        return torch.library.custom_op(f"capture_public::{name}", impl, mutates_args={"x"} if mutates else ())

    writes, reads = define("kind_writes", True), define("kind_reads", False)
    out = []
    for op in (writes, reads):

        def f(x, op=op):
            y = x * 2
            op(y)
            return y

        out.append(compile(f)(torch.ones(2)))
    return out


@program("pytorch#131561", "a number of a tensor is the result, with capture_scalar_outputs")
def number_returned(compile):
    with dynamo.config.patch(capture_scalar_outputs=True):
        return compile(lambda x: x.sum().item())(torch.ones(20))


@program("pytorch#158083", "a tensor plus the number of its own sum, with capture_scalar_outputs")
def number_added(compile):
    @compile
    def f(x):
        y = x.sum()
        return x + y.item(), y.item()

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.ones(3, 3)), f(torch.zeros(3, 3))


@program("pytorch#127396", "random rows of a number that a tensor has, with capture_scalar_outputs")
def rows_of_number(compile):
    @compile
    def f(x):
        z = torch.randn(x.item(), 8)
        return torch.cat([z, torch.randn(2, 8)])[:, 0:5]

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.tensor(4)), f(torch.tensor(1))


@program("pytorch#185382", "a step count that is a number, in a loop of in-place updates")
def adam_by_hand(compile):
    def step(p, g, m, v, t):
        t.add_(1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        n = t.item()
        denom = (v.sqrt() / ((1 - 0.999**n) ** 0.5)).add_(1e-8)
        p.addcdiv_(m, denom, value=-0.001 / (1 - 0.9**n))

    @compile
    def loop(p, g):
        p = p.clone()
        m, v, t = torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.0)
        for _ in range(5):
            step(p, g, m, v, t)
        return p, m, v, t

    return loop(torch.ones(4), torch.arange(4.0))


@program("pytorch#150613", "a number of a tensor among the arguments of an operator")
def searchsorted_number(compile):
    @compile
    def f(s):
        return torch.searchsorted(s, s[-1].item() // 3)

    with dynamo.config.patch(capture_scalar_outputs=True):
        return f(torch.tensor([0, 1, 2, 5, 9])), f(torch.tensor([0, 3, 3, 5, 6]))


@program("pytorch#167191", "a lazy layer whose first call is the compiled one")
def lazy_first_call(compile):
    m = nn.LazyLinear(4)
    c = compile(m)
    with torch.no_grad():
        first = c(torch.ones(1, 2, 3))
    return first, c(torch.zeros(1, 2, 3)), type(m).__name__, m.in_features


@program("pytorch#100047", "a lazy layer made inside another's initialisation")
def lazy_inside_lazy(compile):
    class Outer(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = None

        def initialize_parameters(self, x):
            if self.layer is None:
                self.layer = nn.LazyLinear(2)

        def forward(self, x):
            return self.layer(x)

    m = Outer()
    c = compile(m)
    return c(torch.ones(2, 3)), c(torch.zeros(2, 3)), m.layer.in_features


@program("pytorch#98844", "branches of cond that read a module's parameters")
def cond_of_module(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, p, x):
            return torch.cond(p, lambda v: self.linear(v) * 2, lambda v: self.linear(v) * -1, [x])

    c = compile(M())
    return c(torch.tensor(True), torch.ones(3, 3)), c(torch.tensor(False), torch.ones(3, 3))


@program("pytorch#135819", "a compiled function inside a compiled function, with a break inside")
def inner_compiled(compile):
    @compile
    def inner(x):
        x = x + 1
        print("inner")
        return x * 2

    @compile
    def f(x):
        return inner(x.sin()) + inner(x)

    return f(torch.ones(2))


@program("pytorch#128942", "a class that is made inside the function")
def class_inside(compile):
    @compile
    def f(x):
        class A:
            k = 3

            def g(self, y):
                return y * self.k

        return A().g(x), A.__name__

    return f(torch.ones(2)), f(torch.ones(2))


@program("pytorch#99609", "an inner function that writes masked values into a dict of the outer one")
def masked_in_dict(compile):
    @compile
    def f():
        a = {"s": torch.arange(12.0).view(2, 2, 3)}
        t2 = torch.tensor([0, 1])

        def inner(t):
            for k, v in a.items():
                a[k] = v[t]

        inner(t2 < 1)
        return a

    return f()
