"""Steady-state time of compiled graphs against eager and torch.compile, interleaved in one process.

    python tests/benchmarks/bench_inductor.py [--threads N] [--no-peer] [--only NAME] [--seconds S]

Prints one line per case: minimum microseconds of each, and the ratios. Graphs are traced with make_fx, so this measures
the compiler and its host program without guards.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from inductor.compile import compile_graph

Make = Callable[[], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Case:
    name: str
    fn: Callable[..., Any]
    inputs: Make


def _x(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def gelu_chain(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * 1.5 + 0.1).tanh() * x


def rms_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = x + r
    return h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * w


def rms_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    normal = x * inverse
    scaled = g * w
    return (scaled - normal * (scaled * normal).mean(-1, keepdim=True)) * inverse, (g * normal).sum(0)


def layer_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [x.shape[1]], w, b, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[1]], mean, rstd, w, b, [True, True, True])


def adam(*tensors: torch.Tensor) -> list[torch.Tensor]:
    n = len(tensors) // 4
    params, grads, avgs, squares = (tensors[i * n : (i + 1) * n] for i in range(4))
    out = []
    for p, g, m, v in zip(params, grads, avgs, squares, strict=True):
        m2 = m * 0.9 + g * 0.1
        v2 = v * 0.999 + g * g * 0.001
        out += [p - 1e-3 * m2 / (v2.sqrt() + 1e-8), m2, v2]
    return out


def batch_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.relu(F.batch_norm(x, m, v, w, b, training=False))


def batch_norm_train(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(F.batch_norm(x, None, None, w, b, training=True))


def cross_entropy_backward(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Loss and gradient in one graph, as training has them."""
    logs = F.log_softmax(x, -1)
    loss, total = torch.ops.aten.nll_loss_forward(logs, t, None, 1, -100)
    grad = torch.ops.aten.nll_loss_backward(torch.ones_like(loss), logs, t, None, 1, -100, total)
    return torch.ops.aten._log_softmax_backward_data(grad, logs, 1, x.dtype)


def batch_norm_backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, m: torch.Tensor, r: torch.Tensor) -> Any:
    """Behind a relu's backward, as in a residual network."""
    g = torch.where(x > 0, g, 0.0)
    return torch.ops.aten.native_batch_norm_backward(g, x, w, None, None, m, r, True, 1e-5, [True, True, True])


def max_pool_backward(g: torch.Tensor, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.max_pool2d_with_indices_backward(g, x, [3, 3], [2, 2], [1, 1], [1, 1], False, i)


def max_pool_inputs() -> tuple[torch.Tensor, ...]:
    x = _x(16, 64, 56, 56)
    out, indices = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return torch.randn_like(out), x, indices


def mlp(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    for k in range(0, len(weights), 4):
        w, b, g, s = weights[k : k + 4]
        x = x + F.gelu(F.linear(F.layer_norm(x, (x.shape[1],), g, s), w, b))
    return x


def mlp_forward_backward(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        leaves = [w.detach().requires_grad_() for w in weights]
        return torch.autograd.grad(mlp(x, *leaves).square().mean(), leaves)


def mlp_inputs() -> tuple[torch.Tensor, ...]:
    block = (_x(256, 256) / 16, _x(256), _x(256), _x(256))
    return (_x(64, 256), *(t.clone() for _ in range(10) for t in block))


def dropout(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    """With its draws as an input: the draws themselves are an operator call."""
    return torch.where(r > 0.1, x, 0.0) * (1 / 0.9)


def group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x, 32, w, b)


def embedding_backward(g: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(g, i, 10000, -1, False)


def index_backward(g: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.zeros(4096, 256).index_add(0, i, g)


def _rows(count: int, extent: int) -> torch.Tensor:
    return torch.randint(0, extent, (count,))


N = 2048
CASES = (
    Case("sin+cos 10x10", lambda x, y: torch.sin(x) + torch.cos(y), lambda: (_x(10, 10), _x(10, 10))),
    Case("add 64x64", lambda x, y: x + y, lambda: (_x(64, 64), _x(64, 64))),
    Case("gelu chain 2048x2048", gelu_chain, lambda: (_x(N, N),)),
    Case("gelu chain bf16", gelu_chain, lambda: (_x(N, N, dtype=torch.bfloat16),)),
    Case("softmax 128x128", lambda x: torch.softmax(x, -1), lambda: (_x(128, 128),)),
    Case("softmax 2048x1024", lambda x: torch.softmax(x, -1), lambda: (_x(N, 1024),)),
    Case("softmax(sin+cos) 2048x1024", lambda x: torch.softmax(x.sin() + x.cos(), -1), lambda: (_x(N, 1024),)),
    Case("softmax dim0 1024x1024", lambda x: torch.softmax(x, 0), lambda: (_x(1024, 1024),)),
    Case("layer_norm 2048x1024", lambda x, w, b: F.layer_norm(x, (1024,), w, b), lambda: (_x(N, 1024), _x(1024), _x(1024))),
    Case(
        "layer_norm bf16",
        lambda x, w, b: F.layer_norm(x, (1024,), w, b),
        lambda: tuple(t.bfloat16() for t in (_x(N, 1024), _x(1024), _x(1024))),
    ),
    Case("layer_norm backward", layer_norm_backward, lambda: (_x(N, 1024), _x(N, 1024), _x(1024), _x(1024))),
    Case("rms_norm(x+r) 2048x1024", rms_norm, lambda: (_x(N, 1024), _x(N, 1024), _x(1024))),
    Case("rms_norm backward", rms_backward, lambda: (_x(N, 1024), _x(N, 1024), _x(1024))),
    Case("(x*x).sum(0) 2048x1024", lambda x: (x * x).sum(0), lambda: (_x(N, 1024),)),
    Case("x.sum(1) 2048x1024", lambda x: x.sum(1), lambda: (_x(N, 1024),)),
    Case("x.sum() 2048x1024", lambda x: x.sum(), lambda: (_x(N, 1024),)),
    Case("x.sum((0,2,3)) 16x64x56x56", lambda x: x.sum((0, 2, 3)), lambda: (_x(16, 64, 56, 56),)),
    Case("cross_entropy 2048x2048", lambda x, t: F.cross_entropy(x, t), lambda: (_x(N, N), torch.randint(0, N, (N,)))),
    Case("argmax 2048x1024", lambda x: x.argmax(1), lambda: (_x(N, 1024),)),
    Case("bn relu eval 16x64x56x56", batch_norm, lambda: (_x(16, 64, 56, 56), _x(64), _x(64), _x(64), _x(64).abs())),
    Case("bn relu train 16x64x56x56", batch_norm_train, lambda: (_x(16, 64, 56, 56), _x(64), _x(64))),
    Case("x.t()+y 1024x1024", lambda x, y: x.t() + y, lambda: (_x(1024, 1024), _x(1024, 1024))),
    Case("cat 3x 512x512", lambda a, b, c: torch.cat([a * 2, b.relu(), c], 1), lambda: (_x(512, 512), _x(512, 512), _x(512, 512))),
    Case("embedding 50257x768", lambda w, i: F.embedding(i, w), lambda: (_x(50257, 768), torch.randint(0, 50257, (8, 128)))),
    Case("adam 50x(64x64)", adam, lambda: tuple(_x(64, 64).abs() for _ in range(200))),
    Case("linear+gelu 128x512", lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda: (_x(128, 512), _x(512, 512), _x(512))),
    Case("cumsum 512x512", lambda x: x.cumsum(1), lambda: (_x(512, 512),)),
    Case("max_pool 16x64x56x56", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: (_x(16, 64, 56, 56),)),
    Case("max_pool with indices", lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), lambda: (_x(16, 64, 56, 56),)),
    Case("max_pool backward", max_pool_backward, max_pool_inputs),
    Case("avg_pool 16x64x56x56", lambda x: F.avg_pool2d(x, 3, 2, 1), lambda: (_x(16, 64, 56, 56),)),
    Case("avg_pool 2x2", lambda x: F.avg_pool2d(x, 2), lambda: (_x(16, 64, 56, 56),)),
    Case("bn backward 16x64x56x56", batch_norm_backward, lambda: (*(_x(16, 64, 56, 56) for _ in "gx"), *(_x(64).abs() for _ in "wmr"))),
    Case("bn backward 8x512x7x7", batch_norm_backward, lambda: (*(_x(8, 512, 7, 7) for _ in "gx"), *(_x(512).abs() for _ in "wmr"))),
    Case("bn relu train 8x512x7x7", batch_norm_train, lambda: (_x(8, 512, 7, 7), _x(512), _x(512))),
    Case("cross_entropy fwd+bwd", cross_entropy_backward, lambda: (_x(N, N), _rows(N, N))),
    Case("mlp 10 blocks fwd", mlp, mlp_inputs),
    Case("mlp 10 blocks fwd+bwd", mlp_forward_backward, mlp_inputs),
    Case("gather 2048x1024", lambda x, i: x.gather(1, i), lambda: (_x(N, 1024), torch.randint(0, 1024, (N, 1024)))),
    Case("index_select rows", lambda x, i: x.index_select(0, i), lambda: (_x(4096, 256), _rows(4096, 4096))),
    Case("index_add rows", index_backward, lambda: (_x(4096, 256), _rows(4096, 4096))),
    Case("embedding backward", embedding_backward, lambda: (_x(2048, 256), _rows(2048, 10000))),
    Case("embedding sum of 16", lambda w, i: F.embedding(i, w).sum(1), lambda: (_x(10000, 128), torch.randint(0, 10000, (256, 16)))),
    Case("var 2048x1024", lambda x: x.var(1), lambda: (_x(N, 1024),)),
    Case("var all", lambda x: x.var(), lambda: (_x(N, 1024),)),
    Case("mean dim1 64x256x64", lambda x: x.mean(1), lambda: (_x(64, 256, 64),)),
    Case("mean dims 16x64x56x56", lambda x: x.mean((2, 3)), lambda: (_x(16, 64, 56, 56),)),
    Case("max dim0 2048x1024", lambda x: x.amax(0), lambda: (_x(N, 1024),)),
    Case("dropout 2048x1024", dropout, lambda: (_x(N, 1024), torch.rand(N, 1024))),
    Case("upsample bilinear 2x", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: (_x(4, 32, 56, 56),)),
    Case("upsample nearest 2x", lambda x: F.interpolate(x, scale_factor=2), lambda: (_x(4, 32, 56, 56),)),
    Case("group_norm 8x128x28x28", group_norm, lambda: (_x(8, 128, 28, 28), _x(128), _x(128))),
    Case("transpose copy 1000x1000", lambda x: x.t().contiguous(), lambda: (_x(1000, 1000),)),
    Case("permute 8x128x12x64", lambda x: x.permute(0, 2, 1, 3).contiguous(), lambda: (_x(8, 128, 12, 64),)),
    Case("nchw to nhwc", lambda x: x.relu().to(memory_format=torch.channels_last), lambda: (_x(8, 64, 56, 56),)),
    Case("softmax 32x50257", lambda x: torch.softmax(x, -1), lambda: (_x(32, 50257),)),
    Case("softmax 4096x49", lambda x: torch.softmax(x, -1), lambda: (_x(4096, 49),)),
    Case("softmax bf16", lambda x: torch.softmax(x, -1), lambda: (_x(N, 1024, dtype=torch.bfloat16),)),
    Case("log_softmax dim1 8x21x64x64", lambda x: torch.log_softmax(x, 1), lambda: (_x(8, 21, 64, 64),)),
    Case("layer_norm 64x256", lambda x, w, b: F.layer_norm(x, (256,), w, b), lambda: (_x(64, 256), _x(256), _x(256))),
    Case("cumsum dim0 512x512", lambda x: x.cumsum(0), lambda: (_x(512, 512),)),
    Case("sum int64", lambda x: x.sum(1), lambda: (torch.randint(0, 9, (N, 1024)),)),
    Case("add 64 MB", lambda x, y: x + y, lambda: (_x(4096, 4096), _x(4096, 4096))),
    Case("where/compare", lambda x, y: torch.where(x > y, x, y).clamp(0, 1), lambda: (_x(1024, 1024), _x(1024, 1024))),
)


def best(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Minimum time of each, taken in turns so that all see the same machine."""
    found = dict.fromkeys(calls, float("inf"))
    loops = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        loops[name] = max(1, min(2000, int(0.002 / max(time.perf_counter() - start, 1e-7))))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, call in calls.items():
            count = loops[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            found[name] = min(found[name], (time.perf_counter() - start) / count)
    return found


def measure(case: Case, with_peer: bool, seconds: float) -> dict[str, float]:
    torch.manual_seed(0)
    inputs = case.inputs()
    args = list(inputs)
    start = time.perf_counter()
    compiled = compile_graph(make_fx(case.fn, tracing_mode="fake")(*inputs), args)
    cold = time.perf_counter() - start
    calls: dict[str, Callable[[], Any]] = {"eager": lambda: case.fn(*inputs), "ours": lambda: compiled(args)}
    if with_peer:
        peer = torch.compile(case.fn)
        peer(*inputs)
        calls["peer"] = lambda: peer(*inputs)
    with torch.no_grad():
        found = best(calls, seconds)
    return found | {"cold": cold}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--only", default="", help="part of a case name; several with commas")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, {options.threads} thread(s)")
    print(f"{'case':30s} {'eager us':>10s} {'ours us':>10s} {'peer us':>10s} {'eager/ours':>10s} {'peer/ours':>10s} {'compile s':>9s}")
    for case in CASES:
        if not any(part in case.name for part in options.only.split(",")):
            continue
        t = measure(case, not options.no_peer, options.seconds)
        peer = t.get("peer", float("nan"))
        print(
            f"{case.name:30s} {t['eager'] * 1e6:10.2f} {t['ours'] * 1e6:10.2f} {peer * 1e6:10.2f}"
            f" {t['eager'] / t['ours']:10.2f} {peer / t['ours']:10.2f} {t['cold']:9.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
