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
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}, {options.threads} thread(s)")
    print(f"{'case':30s} {'eager us':>10s} {'ours us':>10s} {'peer us':>10s} {'eager/ours':>10s} {'peer/ours':>10s} {'compile s':>9s}")
    for case in CASES:
        if options.only and options.only not in case.name:
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
