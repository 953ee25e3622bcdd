"""Programs for the device: each runs compiled there, and is compared with eager there. Plain functions, for machines without pytest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import Note

Make = Callable[[], list[torch.Tensor]]
CASES: dict[str, tuple[Callable[..., Any], Make]] = {}


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device="cuda").to(dtype)


def row(name: str, fn: Callable[..., Any], make: Make) -> None:
    CASES[name] = fn, make


def halves() -> list[torch.Tensor]:
    return [rand(512, 4096, dtype=HALF), rand(4096, dtype=HALF), rand(4096, dtype=HALF)]


HALF = torch.bfloat16
row("add one", lambda x: x + 1, lambda: [rand(64)])
row("a scalar", lambda x: (x * 2).sum(), lambda: [rand()])
row("gelu chain", lambda x: F.gelu(x * 1.5 + 0.1).tanh() * x, lambda: [rand(1000, 1001)])
row("gelu chain, bfloat16", lambda x: F.gelu(x * 1.5 + 0.1).tanh() * x, lambda: [rand(1000, 1001, dtype=HALF)])
row("gelu chain, float16", lambda x: F.gelu(x * 1.5 + 0.1).tanh() * x, lambda: [rand(300, 77, dtype=torch.float16)])
row("odd length", lambda x, y: x * y + 1, lambda: [rand(3_000_001), rand(3_000_001)])
row("misaligned", lambda x: x * 2 + 1, lambda: [rand(100_001)[1:]])
row("bias", lambda x, b: (x + b).relu(), lambda: [rand(4096, 1001), rand(1001)])
row("softmax", lambda x: torch.softmax(x, -1), lambda: [rand(512, 256)])
row("softmax, bfloat16", lambda x: torch.softmax(x, -1), lambda: [rand(512, 4096, dtype=HALF)])
row("softmax, odd rows", lambda x: torch.softmax(x, -1), lambda: [rand(300, 3001)])
row("softmax, long rows", lambda x: torch.softmax(x, -1), lambda: [rand(40, 50_257)])
row("softmax of infinities", lambda x: torch.softmax(x * float("-inf"), -1), lambda: [rand(4, 5000).abs() + 1])
row("log_softmax", lambda x: torch.log_softmax(x, -1), lambda: [rand(100, 1000)])
row("cross entropy", lambda x, t: F.cross_entropy(x, t), lambda: [rand(256, 5027), torch.randint(0, 5027, (256,), device="cuda")])
row("layer norm", lambda x, w, b: F.layer_norm(x, (768,), w, b), lambda: [rand(512, 768), rand(768), rand(768)])
row("layer norm, bfloat16", lambda x, w, b: F.layer_norm(x, (4096,), w, b), halves)
row("rms norm", lambda x, w: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * w, lambda: [rand(512, 1024), rand(1024)])
row("group norm", lambda x: F.group_norm(x, 4), lambda: [rand(8, 32, 14, 14)])
row("batch norm", lambda x: F.batch_norm(x, None, None, training=True), lambda: [rand(16, 32, 28, 28)])
row("row sum", lambda x: x.sum(-1), lambda: [rand(1000, 4096)])
row("column sum", lambda x: x.sum(0), lambda: [rand(4096, 1000)])
row("full reductions", lambda x: (x.sum(), x.amax(), x.mean(), x.var(), x.argmax()), lambda: [rand(1000, 1000)])
row("middle dim", lambda x: x.mean(1), lambda: [rand(64, 256, 64)])
row("argmax with equals", lambda x: (x.round().argmax(-1), x.round().argmin(-1)), lambda: [rand(100, 999)])
row("cumsum", lambda x: x.cumsum(1) * 2, lambda: [rand(100, 4096)])
row("cumsum, long", lambda x: x.cumsum(1), lambda: [rand(8, 40_000).double()])
row("transpose", lambda x: x.t().contiguous() + 1, lambda: [rand(700, 1001)])
row("channels last", lambda x: (x * 2).to(memory_format=torch.channels_last), lambda: [rand(4, 64, 56, 56)])
row("cat", lambda x, y: torch.cat([x * 2, y.relu()], 1), lambda: [rand(100, 33), rand(100, 40)])
row("pad", lambda x: F.pad(x.exp(), (1, 2, 3, 4)), lambda: [rand(50, 60)])
row("pooling", lambda x: (F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 2)), lambda: [rand(4, 8, 57, 57)])
row("embedding", lambda w, i: F.embedding(i, w) * 2, lambda: [rand(1000, 64), torch.randint(0, 1000, (333,), device="cuda")])
row("index_add", lambda x, i, y: x.index_add(0, i, y), lambda: [rand(50, 16), torch.randint(0, 50, (400,), device="cuda"), rand(400, 16)])
row("gather", lambda x: x.gather(1, x.argsort(1)), lambda: [rand(64, 128)])
row("integers", lambda x: (x * 3 + 1, x % 7, x.sum(), x.amax(0)), lambda: [torch.randint(-99, 99, (200, 300), device="cuda")])
row("booleans", lambda x: ((x > 0).any(1), (x > 0).all(), (x > 0) ^ (x < 1), torch.where(x > 0, x, -x)), lambda: [rand(200, 300)])
row("float64", lambda x: torch.softmax(x.sin() + x.cos(), -1), lambda: [rand(64, 300).double()])
row("functions", lambda x: (x.erf(), x.lgamma(), x.abs().log1p(), x.atan2(x + 1), x.abs() ** 2.5), lambda: [rand(5000)])
row(
    "remainders",
    lambda x: (x.remainder(0.7), x.fmod(0.7), x.div(0.7, rounding_mode="floor"), x.detach().nextafter(x.detach() + 1)),
    lambda: [rand(5000)],
)
row("matmul in between", lambda x, w: torch.softmax((x @ w).relu() + 1, -1) @ w.t(), lambda: [rand(64, 64), rand(64, 64)])
row("foreach", lambda x, y, z: torch._foreach_add([x, y], [z, x]), lambda: [rand(3000), rand(3000), rand(3000)])
row(
    "statistics of a batch norm",
    lambda x, m, v, w, b: F.batch_norm(x, m.detach().clone(), v.detach().clone(), w, b, training=True).relu(),
    lambda: [rand(16, 32, 28, 28), rand(32), rand(32).abs() + 1, rand(32), rand(32)],
)
row("embedding, bfloat16", lambda w, i: F.embedding(i, w) * 2, lambda: [rand(9, 64, dtype=HALF), torch.randint(0, 9, (33,), device="cuda")])
row("max pool, bfloat16", lambda x: F.max_pool2d(x * 2, 3, 2, 1), lambda: [rand(4, 8, 57, 57, dtype=HALF)])
row("a number of the processor", lambda x, n: x * n + n, lambda: [rand(100, 30), torch.tensor(3)])
row("an index of the processor", lambda x: x[torch.tensor([0, 2])] + 1, lambda: [rand(5, 30)])
row("attention", lambda q: F.scaled_dot_product_attention(q, q * 0.5, q) * 2, lambda: [rand(2, 4, 64, 32)])
row("attention, bfloat16", lambda q: F.scaled_dot_product_attention(q, q * 0.5, q) * 2, lambda: [rand(2, 4, 64, 32, dtype=HALF)])
row(
    "attention with a triangle",
    lambda q: F.scaled_dot_product_attention(q, q * 0.5, q, torch.ones(64, 64, dtype=torch.bool, device=q.device).tril()),
    lambda: [rand(2, 4, 64, 32, dtype=HALF)],
)
row("a size of zero", lambda x: (x.exp(), x.sum(0)), lambda: [rand(0, 4)])


def compare(found: Any, expected: Any) -> None:
    found = found if isinstance(found, (tuple, list)) else [found]
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    for f, e in zip(found, expected, strict=True):
        wide = {"rtol": 2e-2, "atol": 2e-2} if e.dtype.itemsize == 2 else {"rtol": 1e-4, "atol": 1e-4}
        torch.testing.assert_close(f, e, equal_nan=True, check_stride=e.numel() > 0, **(wide if e.is_floating_point() else {}))


def check(name: str, *, gradients: bool = True) -> list[str]:
    """Compiled equals eager, gradients too. Returns what was noted: kernels that ran as ATen calls, graphs that ran uncompiled."""
    fn, make = CASES[name]
    torch.manual_seed(0)
    given = make()
    with session() as store, config.patch(suppress_errors=False):
        run = dynamo.compile(fn, backend="inductor", fullgraph=True)
        compare(run(*given), fn(*given))
        leaves = [g.detach().clone().requires_grad_() for g in given if g.is_floating_point() and g.numel()]
        if gradients and leaves:
            pairs = [grads_of(f, given, leaves) for f in (run, fn)]
            compare(*pairs)
    return [f"{n.id}: {n.message}" for n in store.of(Note) if n.id in ("DI001", "DI002", "DI020", "DI021", "DI022")]


def grads_of(fn: Callable[..., Any], given: list[torch.Tensor], leaves: list[torch.Tensor]) -> list[torch.Tensor]:
    left = iter(leaves)
    args = [next(left) if g.is_floating_point() and g.numel() else g for g in given]
    out = fn(*args)
    ends = [o for o in (out if isinstance(out, (tuple, list)) else [out]) if o.requires_grad]
    if not ends:
        return []
    weights = [weights_like(e) for e in ends]
    found = torch.autograd.grad(ends, leaves, weights, allow_unused=True)
    return [f for f in found if f is not None]


def weights_like(end: torch.Tensor) -> torch.Tensor:
    """A gradient in the layout of the result, which compiled graphs take for granted, as torch's own do."""
    values = torch.linspace(0.5, 1.5, end.numel(), device="cuda", dtype=torch.float64)
    return torch.empty_like(end).copy_(values.view(end.shape))
