"""Control flow and attention that take functions: torch.cond, while_loop, map, scans, flex_attention, in and around compiled functions."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program

# Where eager runs these it loads torch's own compiler, which takes seconds. Most run natively: one backend shows what the others would.
_ONE = ("inductor",)


def _raised(fn, *args):
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the program compares what is raised
        return type(e)


@program("", "cond with gradients of inputs, closures and parameters, both ways", backends=_ONE)
def cond_gradients(compile):
    lin = nn.Linear(3, 3)
    nn.init.constant_(lin.weight, 0.5)
    nn.init.constant_(lin.bias, 0.1)
    scale = torch.full((3,), 2.0, requires_grad=True)

    @compile
    def f(x):
        h = x.sin()
        y = torch.cond(h.sum() > 0, lambda a: lin(a) * scale, lambda a: a * h, (h,))
        return (y * x).sum()

    out = []
    for sign in (1.0, -1.0):
        x = (torch.arange(3.0) * sign).requires_grad_()
        f(x).backward()
        out += [x.grad, scale.grad, lin.weight.grad]
    return out


@program("", "cond nested in a branch, on a bool, without operands, with a dict of results", backends=_ONE)
def cond_forms(compile):
    @compile
    def f(x, flag):
        def inner(a):
            return torch.cond(a.sum() > 3, lambda a: a * 2, lambda a: a * 3, (a,))

        a = torch.cond(x.sum() > 1, inner, lambda a: a - 1, (x,))
        b = torch.cond(x.sum() > 1, lambda: x + 1, lambda: x - 1)
        c = torch.cond(x.sum() > 1, lambda a, b: {"s": a + b, "d": (a - b, b * 2)}, lambda a, b: {"s": a - b, "d": (a + 1, b * 3)}, (x, a))
        return a, b, c

    return [f(torch.full((3,), v), True) for v in (0.0, 0.5, 2.0)]


@program("", "cond whose branches differ, write to their inputs or alias them raise what eager raises", backends=_ONE)
def cond_errors(compile):
    x = torch.ones(3)

    def shapes(x):
        return torch.cond(x.sum() > 1, lambda a: a, lambda a: a[:2].clone(), (x,))

    def dtypes(x):
        return torch.cond(x.sum() > 1, lambda a: a.sin(), lambda a: a.double(), (x,))

    def structure(x):
        return torch.cond(x.sum() > 1, lambda a: (a.sin(), a.cos()), lambda a: a.sin(), (x,))

    def writes(x):
        return torch.cond(x.sum() > 1, lambda a: a.add_(1).sin(), lambda a: a.sin(), (x,))

    def aliases(x):
        return torch.cond(x.sum() > 1, lambda a: a.view(-1), lambda a: a.sin(), (x,))

    def not_a_function(x):
        return torch.cond(x.sum() > 1, 3, lambda a: a.sin(), (x,))

    def not_a_bool(x):
        return torch.cond(x, lambda a: a.cos(), lambda a: a.sin(), (x,))

    return [_raised(compile(f), x) for f in (shapes, dtypes, structure, writes, aliases, not_a_function, not_a_bool)], x


@program("", "cond under no_grad, under autocast, in a checkpoint and in a module's forward", backends=_ONE)
def cond_surroundings(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            for p in self.parameters():
                nn.init.constant_(p, 0.5)

        def forward(self, x):
            return torch.cond(x.sum() > 1, self.a, self.b, (x,)) + 1

    m = M()
    c = compile(m)
    with torch.no_grad():
        a = c(torch.ones(1, 2))
    b = c(torch.zeros(1, 2))
    b.sum().backward()
    return a, b, [p.grad for p in m.parameters()]


@program("", "a compiled function called in a branch, and cond around a compiled function", backends=_ONE)
def cond_of_compiled(compile):
    f = compile(lambda a: a.sin() * 2)
    x = torch.ones(3)
    return f(x), torch.cond(x.sum() > 1, lambda a: a.sin() * 2, lambda a: a + 1, (x,)), f(x * 2)


@program("", "while_loop with a tensor counter, several carried values and a closure", backends=_ONE)
def while_loops(compile):
    from torch._higher_order_ops.while_loop import while_loop

    w = torch.full((2,), 0.5)

    @compile
    def f(x, n):
        y = x * 2
        i, a, b = while_loop(lambda i, a, b: (i < n) & (a.sum() < 50), lambda i, a, b: (i + 1, a * 1.5 + w, b - a), (torch.tensor(0), y, x))
        return i, a + 1, b

    return f(torch.ones(2), torch.tensor(3)), f(torch.ones(2), torch.tensor(0)), f(torch.full((2,), 20.0), torch.tensor(9))


@program("", "map with gradients, over several tensors and rows of a structure", backends=_ONE)
def maps(compile):
    from torch._higher_order_ops.map import map as map_op

    @compile
    def f(xs, y):
        return map_op(lambda x, y: (x * y).sin(), xs * 2, y)

    xs, y = torch.arange(6.0).view(3, 2).requires_grad_(), torch.ones(2, requires_grad=True)
    out = f(xs, y)
    out.sum().backward()
    return out, xs.grad, y.grad


@program("", "associative_scan over a tensor, a pytree, backwards, and on another dimension")
def scans(compile):
    from torch._higher_order_ops.associative_scan import associative_scan

    def linear(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    @compile(fullgraph=True)
    def f(x):
        a = associative_scan(torch.add, x, 0, combine_mode="generic")
        b = associative_scan(lambda a, b: a * b, x + 0.5, 1, reverse=True, combine_mode="generic")
        c, d = associative_scan(linear, (x.cos(), x), -1, combine_mode="generic")
        return a, b, c, d * 2, associative_scan(torch.maximum, x[:, 0], dim=0, combine_mode="generic")

    x = torch.arange(12.0).view(4, 3).requires_grad_()
    out = f(x)
    sum(y.sum() for y in out).backward()
    return out, x.grad, f(torch.ones(1, 3)), f(torch.ones(5, 2))


@program("", "associative_scan of functions that are not computed element by element, and with wrong arguments")
def scans_mapped(compile):
    from torch._higher_order_ops.associative_scan import associative_scan

    w = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def use(x, fn, **options):
        return _raised(compile(lambda x: associative_scan(fn, x, **({"dim": 0, "combine_mode": "generic"} | options)) * 2), x)

    x, m = torch.arange(12.0).view(4, 3), torch.rand(4, 2, 2)
    return [
        use(m, torch.matmul),
        use(m, lambda a, b: a + b.sum()),
        use(m, lambda a, b: a.t() + b),
        use(x, lambda a, b: a + b.softmax(0)),
        use(x[:, 0], lambda a, b: a + b * w[0]),
        use(x, lambda a, b: (a + b).double()),
        use(x, torch.add, combine_mode="pointwise"),
        use(x, torch.add, dim=5),
        use(x[:0], torch.add),
        use(x, torch.add, reverse=1),
        use(x, lambda a, b: (a, b)),
    ]


@program("", "scan with a carry and outputs", backends=_ONE)
def scan_carry(compile):
    from torch._higher_order_ops.scan import scan

    @compile
    def f(xs):
        def step(carry, x):
            new = carry * 0.5 + x
            return new, new * 2

        carry, ys = scan(step, torch.zeros(2), xs * 2)
        return carry + 1, ys

    return _raised(f, torch.arange(6.0).view(3, 2))


def _qkv(n=32, heads=2, dim=8):
    torch.manual_seed(0)
    return [torch.randn(1, heads, n, dim) for _ in range(3)]


@program("", "flex_attention with a bias from a closure, a scale, grouped heads and the log-sum-exp", backends=_ONE)
def flex_forms(compile):
    from torch.nn.attention.flex_attention import flex_attention

    bias = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))

    @compile
    def f(q, k, v):
        h = q * 2
        a = flex_attention(h, k, v, score_mod=lambda s, b, h, i, j: s + bias[i, j])
        b = flex_attention(h, k[:, :1], v[:, :1], scale=0.5, enable_gqa=True)
        c, lse = flex_attention(h, k, v, return_lse=True)
        return a, b, c + 1, lse

    q, k, v = _qkv()
    return f(q, k, v)


@program("", "flex_attention with a block mask made inside, causal, and a window", backends=_ONE)
def flex_masks(compile):
    from torch.nn.attention.flex_attention import and_masks, create_block_mask, create_mask, flex_attention

    def causal(b, h, i, j):
        return i >= j

    def window(b, h, i, j):
        return i - j <= 4

    @compile
    def f(q, k, v):
        mask = create_block_mask(and_masks(causal, window), None, None, 32, 32, device="cpu")
        return flex_attention(q, k, v, block_mask=mask).sum(-1), create_mask(causal, 1, 1, 4, 4, device="cpu")

    with torch.no_grad():
        return f(*_qkv())


@program("", "flex_attention in a module with relative positions, and errors of wrong arguments", backends=_ONE)
def flex_module(compile):
    from torch.nn.attention.flex_attention import flex_attention

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.slopes = nn.Parameter(torch.tensor([0.5, 0.25]))

        def forward(self, q, k, v):
            def alibi(score, b, h, i, j):
                return score - self.slopes[h] * (i - j).abs()

            return flex_attention(q, k, v, score_mod=alibi).transpose(1, 2).flatten(2)

    c = compile(M())
    with torch.no_grad():
        out = c(*_qkv())
        wrong = _raised(compile(lambda q, k, v: flex_attention(q, k[:, :, :, :4], v)), *_qkv())
    return out, wrong


@program("", "flex_attention with gradients to the arguments and to what the score reads", backends=_ONE)
def flex_gradients(compile):
    from torch.nn.attention.flex_attention import flex_attention

    bias = torch.zeros(2, requires_grad=True)

    @compile
    def f(q, k, v):
        return (flex_attention(q * 2, k, v, score_mod=lambda s, b, h, i, j: s * 0.5 + (i - j)) + 1).sum()

    @compile
    def g(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[h]).sum()

    def backward(fn, *args):
        fn(*args).backward()
        return [a.grad for a in args]

    given = _qkv(16)
    return _raised(backward, f, *given), _raised(backward, g, *given), bias.grad


@program("", "the warning and the errors of flex_attention come as in eager, and its log-sum-exp and maxima", backends=_ONE)
def flex_results(compile):
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    q, k, v = (t.detach() for t in _qkv(16))

    def use(*args, **options):
        return _raised(compile(lambda *a: flex_attention(*a, **options)), *args)

    return [
        use(q, k, v, return_aux=AuxRequest(lse=True, max_scores=True)),
        use(q.bfloat16(), k.bfloat16(), v.bfloat16()),
        use(q, k[0], v),
        use(q, k, v.double()),
        use(q, k, v, score_mod=lambda s: s),
        use(q, k, v, return_lse=True, return_aux=AuxRequest(lse=True)),
        use(q.expand(2, -1, -1, -1), k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1), kernel_options={"BLOCK_M": 16}),
    ]
