"""Numbers that tensors hold, kept in one graph under `capture_scalar_outputs`, and where they can't be."""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

import dynamo
from repro_corpus.program import program


def _captured(**options):
    return dynamo.config.patch(capture_scalar_outputs=True, **options)


@program("", "numbers that flow back into arithmetic are part of one graph")
def one_graph(compile):
    @compile(fullgraph=True)
    def f(x, i):
        s, n = x.sum().item(), i.max().item()
        y = x * s + n
        y -= s
        y = s - y
        return (y / s, y > s, y <= 0.5), s, n, s * 2 + 1, -s, s > 1, s == 3.0

    with _captured():
        return [f(torch.rand(3), torch.tensor([1, k])) for k in range(4)]


@program("", "in one graph: float(), int() and bool tensors, several dtypes of both sides")
def one_graph_dtypes(compile):
    @compile(fullgraph=True)
    def f(x, k, flag):
        a, b, c, d = float(x[0]), int(k[1]), flag.item(), float(k[0])
        return x.double() * a, x.half() * a, x.bfloat16() + a, x + b, k * b, x * c, flag & flag, k == b, x.float() - d, x + d, a, b, c, d

    with _captured():
        return [
            f(torch.rand(3, dtype=t), torch.tensor([3, 2**60]), torch.tensor(True)) for t in (torch.float32, torch.float64, torch.bfloat16)
        ]


@program("", "in one graph: nested tolist, an empty row, a list of one tensor's numbers")
def one_graph_tolist(compile):
    @compile(fullgraph=True)
    def f(x, i):
        (a, b), (c, d) = x.tolist()
        j, k = i.tolist()
        return x * a - b + c * 2 + d, x + j - k, x.tolist(), torch.zeros(1).tolist()

    with _captured():
        return f(torch.rand(2, 2), torch.tensor([1, 5])), f(torch.rand(2, 2), torch.tensor([-1, 3]))


@program("", "in one graph: tensors without dimensions, integers and floats")
def one_graph_scalars(compile):
    @compile(fullgraph=True)
    def f(x, n):
        s, k = x.sum().item(), n.sum().item()
        return x.sum() * s, s - x.sum(), n * s, n + k, n[0] * s, n[0] - k, n / k, n == s, x[0] * k, x[0] > s, n[0] == s, n[0] * s > x

    with _captured():
        return f(torch.rand(3), torch.tensor([1, 2, 2**40])), f(torch.rand(3, dtype=torch.float64), torch.tensor([3, 2, 1]))


@program("", "gradients do not flow through a number")
def gradients(compile):
    @compile(fullgraph=True)
    def f(x, w):
        scale = w.norm().item()
        return (x * scale + w / scale).sum() * x.max().item()

    x, w = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    with _captured():
        y = f(x, w)
        y.backward()
    return y, x, w


@program("", "a number keeps the value that it was read with")
def written_after(compile):
    @compile(fullgraph=True)
    def f(x, n):
        s, k = x[0].item(), n.item()
        x.add_(1)
        n += 1
        return x * s, s, k, x + k

    x, n = torch.zeros(3, dtype=torch.float64), torch.tensor(3)
    with _captured():
        return f(x, n), x, n, f(x, n)


@program("", "a loss is logged: to a list, an attribute, a dict and a global")
def logged(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
            self.last, self.log, self.best = None, [], {}

        def forward(self, x):
            y = (x * self.w).sum()
            self.last = y.item()
            self.log.append(self.last)
            self.best["y"] = self.last * 0.5
            return y + self.last

    m = M()
    c = compile(m, fullgraph=True)
    with _captured():
        out = [c(torch.full((3,), float(k))) for k in range(3)]
    out[-1].backward()
    return out, m.last, m.log, m.best, m.w.grad


@program("", "what needs the number itself breaks and is equal")
def broken_uses(compile):
    def use(fn):
        @compile
        def f(x, n):
            s, k = x.sum().item(), n.item()
            y = x * s
            return fn(x, s, k), y + k, s

        x, n = torch.tensor([0.5, 1.0, 2.5]), torch.tensor(2)
        return f(x, n), f(x + 1, n - 1)

    uses = [
        lambda x, s, k: (str(s), f"{k:03d}", repr(k), "%s" % s),  # noqa: UP031  # the form is the point
        lambda x, s, k: (math.sqrt(s), abs(s), round(s, 1), max(s, 1.0), min([s, k]), sum([s, k]), divmod(s, 2)),
        lambda x, s, k: (int(s), float(k), bool(s), s.is_integer(), k.bit_length(), complex(s)),
        lambda x, s, k: (s in (4.0, 7.0), {s: 1}[s], {k}, {2: "b", 1: "a"}[k], hash(s), dict.fromkeys([k, s])),
        lambda x, s, k: (x[k], x[:k], list(range(k)), [0] * k, torch.zeros(k), x.expand(k, 3), x.repeat(k)),
        lambda x, s, k: (torch.tensor(s), torch.full((2,), s), x.clamp(max=s), x**s, x.add(s, alpha=2), s / x, s // 2, s**2, k**2),
        lambda x, s, k: (isinstance(s, float), type(k), s is None, copy.deepcopy([s, k]), (s, k) == (s, k), k + 1, k / 2, -k, not s),
        lambda x, s, k: (x.int() * s, x.to(torch.int8) * k, torch.tensor(2.0) * s, torch.tensor(2) + k, x.sum() * s, x.half() + k),
        lambda x, s, k: (x if s > 5 else x * 2, k and 3, [i for i in (1, 2, 3) if i > k], s == k, s != None),  # noqa: E711
    ]
    with _captured():
        return [use(fn) for fn in uses]


@program("", "errors of numbers are eager's")
def errors(compile):
    def use(fn, *args):
        try:
            return compile(fn)(*args)
        except Exception as e:  # noqa: BLE001  # the program compares what is raised
            return type(e), str(e)

    x = torch.ones(3)
    with _captured():
        return [
            use(lambda x: x.item(), x),
            use(lambda x: x * x[:0].sum().item() / x[:0].item(), x),
            use(lambda x: 1 / (x - x).sum().item(), x),
            use(lambda x: 1.0 % (x - x).sum().item(), x),
            use(lambda x: x.to(torch.int8) * (x.sum().long() * 100).item(), x),
            use(lambda x: x.int().add_(x.sum().item()), x),
            use(lambda x: (x > 0) - (x[0] > 0).item(), x),
            use(lambda x: int(x[0] / 0), x),
            use(lambda x: x[x.sum().long().item()], x),
            use(lambda x: x.sum().item() + "a", x),
            use(lambda x: x.sum().item().missing, x),
        ]


@program("", "numbers cross a break, a call, a generator and a loop")
def over_breaks(compile):
    def scaled(x, s):
        yield x * s
        yield s

    @compile
    def f(x):
        s = x.sum().item()
        print("broken")
        t = (x * 2).max().item()
        total = 0.0
        for k in range(3):
            total += (x * k).sum().item()
        return [*scaled(x, t), s + t, total], lambda: s

    with _captured():
        out, g = f(torch.rand(3))
    return out, g()


@program("", "numbers read inside regions: checkpoints, autograd functions, no_grad")
def in_regions(compile):
    from torch.utils.checkpoint import checkpoint

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.s = x.max().item()
            return x * ctx.s

        @staticmethod
        def backward(ctx, g):
            return g * ctx.s

    def block(x):
        return x.sin() * x.sum().item()

    @compile
    def f(x):
        with torch.no_grad():
            s = x.sum().item()
        return (checkpoint(block, x, use_reentrant=False) * s + Scale.apply(x)).sum()

    x = torch.rand(3, requires_grad=True)
    with _captured():
        f(x).backward()
    return x


@program("", "nan, infinities and negative zero are what they were")
def special_values(compile):
    @compile(fullgraph=True)
    def f(x):
        a, b, c, d = x.tolist()
        return x * a, x + b, x - c, d, a, -d, b - b, a > b, a == a

    with _captured():
        return f(torch.tensor([math.nan, math.inf, -math.inf, -0.0])), f(torch.tensor([1e-45, 3e38, 1.0, 0.0]))


@program("", "shapes that depend on data break under their option, and what is around them is compiled")
def dynamic_shapes(compile):
    @compile
    def f(x):
        y = x * 2
        n = torch.nonzero(y > 1)
        z = y[y > 1] + 1
        y[y > 3] = 0
        return n, z.sum(), y, torch.argwhere(x), torch.masked_select(x, x > 0.5).mean(), torch.unique(x.round()), x.nonzero(as_tuple=True)

    x = torch.tensor([0.1, 0.9, 2.0], requires_grad=True)
    with _captured(capture_dynamic_output_shape_ops=True):
        out = f(x)
        (out[1] + out[2].sum() + out[4]).backward()
    return out, x.grad


@program("", "masks that keep the shape are in one graph")
def static_masks(compile):
    @compile(fullgraph=True)
    def f(x, v):
        y = x.clone()
        y[x > 0.5] = 0.0
        y[:2][v[:2] > 1] = v[2]
        return y, torch.where(x > 0.5, x, v), x.masked_fill(x > 0.2, 1.0)

    return f(torch.rand(4), torch.zeros(4))


@program("", "the option read again: the same function with and without")
def option_changes(compile):
    def f(x):
        return x * x.sum().item()

    out = []
    for flag in (False, True, False):
        with dynamo.config.patch(capture_scalar_outputs=flag):
            out += [compile(f)(torch.ones(k)) for k in (2, 3)]
    return out
