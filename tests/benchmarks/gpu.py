"""Kernels and calls on a GPU, beside eager and torch's own compiler: `make bench-gpu`, or `python -m tests.benchmarks.gpu --help`.

Kernels: calls captured in a CUDA graph over tensors that rotate through at least 400 MB, so nothing stays in the cache; events around
replays, the median of several; systems take turns. 100 % is a clone of bfloat16 16384x4096 on the same device, and a row's bytes are
each input read once and each output written once. Calls: microseconds per call with launching, in a loop; `--only launches` has such times
of the rows of kernels. A line is printed as soon as it is known, so a run that is cut off has said what it knew. `--warm 0/4` calls every
fourth row once, so that several processes fill the caches on disk for one that takes times.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import dynamo

ROTATE = 400e6  # bytes
REPLAYS = 7
HALF = torch.bfloat16

ADAM_SIZES = random.Random(1).choices([768, 768, 3072, 1024, 2304, 49152, 589824, 589824, 589824, 50257], k=500)  # of a language model

Make = Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Row:
    """A kernel, what it is called with, the bytes it has to move, and the share of copy bandwidth that its rule reaches (0: unknown)."""

    name: str
    fn: Callable[..., Any]
    make: Make
    megabytes: float
    rule: float = 0.0


def rand(*shape: int, dtype: torch.dtype = HALF) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def gelu_chain(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * 1.5 + 0.1).tanh() * x


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


def rms_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return rms_norm_and_sum(x, r, w)[1]


def rms_norm_and_sum(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As a residual stream has it: the sum is read again further on."""
    y = x + r
    return y, (y.float() * (y.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype) * w


def norm_backward(g: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, rstd, w, w, [True, True, True])


def rms_norm_backward(g: torch.Tensor, x: torch.Tensor, rstd: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten._fused_rms_norm_backward(g, x, [x.shape[-1]], rstd, w, [True, True])


def batch_statistics(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.var_mean(x.float(), (0, 2, 3))


def batch_norm_backward(
    g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten.native_batch_norm_backward(g, x, w, None, None, mean, rstd, True, 1e-5, [True, True, True])


def cross_entropy(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), t)


def cross_entropy_backward(x: torch.Tensor, lse: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The gradient of logits, from the logarithm of their sum of powers."""
    hit = torch.arange(x.shape[1], device=x.device) == t.unsqueeze(1)
    return (((x.float() - lse.unsqueeze(1)).exp() - hit.float()) * 0.5).to(x.dtype)


def cross_entropy_backward_row(words: int, rule: float) -> Row:
    def make() -> list[torch.Tensor]:
        x = rand(8192, words)
        return [x, torch.cat([part.float().logsumexp(1) for part in x.split(1024)]), tokens(8192, words)]

    return Row(f"cross entropy backward 8192x{words}", cross_entropy_backward, make, 4 * 8192 * words / 1e6, rule)


def adam(*tensors: torch.Tensor) -> None:
    """One step over parameters, gradients, and both moments: a quarter of the tensors each."""
    quarter = len(tensors) // 4
    p, g, m, v = (list(tensors[k * quarter : (k + 1) * quarter]) for k in range(4))
    torch._foreach_lerp_(m, g, 0.1)
    torch._foreach_mul_(v, 0.999)
    torch._foreach_addcmul_(v, g, g, 0.001)
    root = torch._foreach_sqrt(v)
    torch._foreach_add_(root, 1e-8)
    torch._foreach_addcdiv_(p, m, root, -1e-3)


def adam_tensors() -> list[torch.Tensor]:
    return [torch.rand(n, device="cuda") for _ in range(4) for n in ADAM_SIZES]


def embedding_backward(g: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.embedding_dense_backward(g, i, 50257, -1, False)


def embedding_backward_in_float32(g: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    """Gradients of 16 bits, summed in float32."""
    return torch.zeros(50257, g.shape[1], device=g.device).index_add(0, i, g.float())


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 1.5 + 0.1


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous()


def tokens(rows: int, words: int) -> torch.Tensor:
    return torch.randint(0, words, (rows,), device="cuda")


def sized(name: str, fn: Callable[..., Any], shape: tuple[int, int], rule: float, dtype: torch.dtype = HALF, moves: float = 2) -> Row:
    """A row of one matrix, which is read and (moves: 2) written."""
    size = shape[0] * shape[1] * dtype.itemsize / 1e6
    return Row(
        f"{name} {shape[0]}x{shape[1]}{'' if dtype is HALF else ' fp32'}", fn, lambda: [rand(*shape, dtype=dtype)], size * moves, rule
    )


def norm_row(shape: tuple[int, int], rule: float, dtype: torch.dtype = HALF) -> Row:
    n = shape[1]
    size = shape[0] * n * dtype.itemsize / 1e6
    return Row(
        f"layer_norm {shape[0]}x{n}{'' if dtype is HALF else ' fp32'}",
        layer_norm,
        lambda: [rand(*shape, dtype=dtype), rand(n, dtype=dtype), rand(n, dtype=dtype)],
        2 * size,
        rule,
    )


def norm_backward_row(name: str, shape: tuple[int, int], rule: float) -> Row:
    rows, n = shape

    def make() -> list[torch.Tensor]:
        x = rand(rows, n)
        mean, rstd = x.float().mean(-1, keepdim=True), x.float().var(-1, keepdim=True).rsqrt()
        return [rand(rows, n), x, *([mean] if name == "layer_norm" else []), rstd, rand(n)]

    fn = norm_backward if name == "layer_norm" else rms_norm_backward
    return Row(f"{name} backward {rows}x{n}", fn, make, 3 * rows * n * 2 / 1e6, rule)


def images(shape: tuple[int, int, int, int], layout: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    n, c, h, w = shape
    return rand(n, h, w, c).permute(0, 3, 1, 2) if layout is torch.channels_last else rand(*shape)


def batch_row(name: str, shape: tuple[int, int, int, int], rule: float, layout: torch.memory_format = torch.contiguous_format) -> Row:
    n = shape[1]

    def make() -> list[torch.Tensor]:
        x = images(shape, layout)
        if name == "stats":
            return [x]
        return [images(shape, layout), x, *(rand(n, dtype=torch.float32) for _ in range(3))]

    size = 2 * shape[0] * n * shape[2] * shape[3] / 1e6
    kind = " channels last" if layout is torch.channels_last else ""
    fn = batch_statistics if name == "stats" else batch_norm_backward
    return Row(f"batch norm {name} {'x'.join(map(str, shape))}{kind}", fn, make, size if name == "stats" else 3 * size, rule)


ROWS: tuple[Row, ...] = (
    sized("x*1.5+0.1", scaled, (16384, 4096), 99),
    sized("x*1.5+0.1", scaled, (16384, 4096), 101, torch.float32),
    sized("gelu chain", gelu_chain, (16384, 4096), 98),
    sized("gelu chain", gelu_chain, (16384, 4096), 100, torch.float32),
    Row("bias 65536x768", lambda x, b: x + b, lambda: [rand(65536, 768), rand(768)], 201, 98),
    Row("bias 65536x1001", lambda x, b: x + b, lambda: [rand(65536, 1001), rand(1001)], 262, 98),
    sized("softmax", softmax, (16384, 4096), 100),
    sized("softmax", softmax, (4096, 4096), 92),
    sized("softmax", softmax, (8192, 8192), 100),
    sized("softmax", softmax, (65536, 256), 90),
    sized("softmax", softmax, (16384, 768), 87),
    sized("softmax", softmax, (2048, 1024), 48),
    sized("softmax", softmax, (8192, 3000), 93),
    sized("softmax", softmax, (8192, 3001), 92),
    sized("softmax", softmax, (32768, 1001), 93),
    sized("softmax", softmax, (4096, 16384), 97),
    sized("softmax", softmax, (2048, 32768), 96),
    sized("softmax", softmax, (1024, 65536), 86),
    sized("softmax", softmax, (8, 131072), 24),
    Row("cross entropy 8192x50304", cross_entropy, lambda: [rand(8192, 50304), tokens(8192, 50304)], 824, 106),
    Row("cross entropy 8192x50257", cross_entropy, lambda: [rand(8192, 50257), tokens(8192, 50257)], 823, 106),
    cross_entropy_backward_row(50304, 91),
    cross_entropy_backward_row(50257, 82),
    norm_row((16384, 4096), 99),
    norm_row((8192, 8192), 98),
    norm_row((4096, 16384), 95),
    norm_row((16384, 1024), 88),
    norm_row((16384, 768), 80),
    norm_row((65536, 256), 90),
    norm_row((2048, 768), 41),
    norm_row((8192, 4096), 97, torch.float32),
    Row("rms_norm(x+r) 16384x4096", rms_norm, lambda: [rand(16384, 4096), rand(16384, 4096), rand(4096)], 403, 103),
    Row("rms_norm(x+r) and x+r 16384x4096", rms_norm_and_sum, lambda: [rand(16384, 4096), rand(16384, 4096), rand(4096)], 537),
    norm_backward_row("layer_norm", (16384, 4096), 96),
    norm_backward_row("layer_norm", (8192, 8192), 96),
    norm_backward_row("layer_norm", (32768, 1024), 92),
    norm_backward_row("layer_norm", (16384, 768), 74),
    norm_backward_row("rms_norm", (16384, 4096), 97),
    norm_backward_row("rms_norm", (8192, 8192), 96),
    sized("row sum", lambda x: x.sum(-1), (16384, 4096), 104, moves=1),
    sized("row sum", lambda x: x.sum(-1), (65536, 256), 84, moves=1),
    sized("row sum", lambda x: x.sum(-1), (2048, 32768), 104, moves=1),
    sized("column sum", lambda x: x.sum(0), (16384, 4096), 94, moves=1),
    sized("column sum", lambda x: x.sum(0), (262144, 256), 92, moves=1),
    sized("column sum", lambda x: x.sum(0), (4096, 16384), 90, moves=1),
    sized("full sum", lambda x: x.sum(), (16384, 4096), 99, moves=1),
    Row("mean dim 1 640x256x64 fp32", lambda x: x.mean(1), lambda: [rand(640, 256, 64, dtype=torch.float32)], 42, 86),
    batch_row("stats", (64, 256, 56, 56), 92),
    batch_row("stats", (64, 64, 112, 112), 92),
    batch_row("stats", (64, 512, 14, 14), 46),
    batch_row("stats", (64, 256, 56, 56), 82, torch.channels_last),
    batch_row("stats", (64, 64, 112, 112), 79, torch.channels_last),
    batch_row("stats", (64, 512, 14, 14), 35, torch.channels_last),
    batch_row("backward", (64, 256, 56, 56), 0),
    batch_row("backward", (64, 256, 56, 56), 0, torch.channels_last),
    sized("dropout", lambda x: F.dropout(x, 0.1), (16384, 4096), 93),
    sized("transpose", transposed, (4096, 4096), 86),
    sized("transpose", transposed, (8192, 8192), 94),
    sized("transpose", transposed, (4096, 4096), 92, torch.float32),
    sized("transpose", transposed, (8192, 8192), 96, torch.float32),
    sized("argmax", lambda x: x.argmax(-1), (16384, 4096), 102, moves=1),
    sized("argmax", lambda x: x.argmax(-1), (2048, 32768), 94, moves=1),
    sized("cumsum", lambda x: x.cumsum(1), (16384, 4096), 97),
    Row("adam, 500 tensors fp32", adam, adam_tensors, 28 * sum(ADAM_SIZES) / 1e6, 99),
    Row(
        "embedding backward 16384 of 50257x768 fp32",
        embedding_backward,
        lambda: [rand(16384, 768, dtype=torch.float32), tokens(16384, 50257)],
        4 * 768 * (16384 + 50257) / 1e6,
    ),
    Row(
        "embedding backward 16384 of 50257x768",
        embedding_backward_in_float32,
        lambda: [rand(16384, 768), tokens(16384, 50257)],
        768 * (2 * 16384 + 4 * 50257) / 1e6,
        56,
    ),
)


def ten(x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = (x @ x).relu()
    return x


def ten_softmaxes(x: torch.Tensor) -> torch.Tensor:
    """Ten kernels that each need all of the one before."""
    for k in range(10):
        x = x.softmax(k % 2)
    return x


CALLS: tuple[tuple[str, Callable[..., Any], Make], ...] = (
    ("x + 1, 64 elements", lambda x: x + 1, lambda: [rand(64, dtype=torch.float32)]),
    ("x + 1, 1 M elements", lambda x: x + 1, lambda: [rand(1 << 20, dtype=torch.float32)]),
    ("softmax 64x64", softmax, lambda: [rand(64, 64, dtype=torch.float32)]),
    ("ten dependent softmaxes 64x64", ten_softmaxes, lambda: [rand(64, 64, dtype=torch.float32)]),
    ("ten products 64x64, relu", ten, lambda: [rand(64, 64, dtype=torch.float32) / 8]),
    ("layer_norm 2048x768", layer_norm, lambda: [rand(2048, 768), rand(768), rand(768)]),
    ("softmax 16384x4096", softmax, lambda: [rand(16384, 4096)]),
)


def system(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function under eager, our compiler, or the peer."""
    if name == "eager":
        return fn
    mode = "reduce-overhead" if name.endswith("graphs") else None
    if name.startswith("ours"):
        dynamo.reset()  # every row is compiled for its own sizes
        return dynamo.compile(fn, backend="inductor", mode=mode)
    torch._dynamo.reset()
    return torch.compile(fn, mode=mode)


def kernel_microseconds(run: Callable[..., Any], make: Make, megabytes: float) -> Callable[[], float]:
    """Prepare a graph of rotating calls. The result times one call, without launching."""
    count = max(2, min(8, round(ROTATE / 1e6 / max(megabytes, 1))))
    sets = [make() for _ in range(count)]
    for given in sets:
        run(*given)
    torch.cuda.synchronize()
    calls = max(count, min(200, int(600 / max(megabytes / 3, 2))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(calls):
            run(*sets[k % count])

    def measure() -> float:
        times = []
        for _ in range(REPLAYS):
            torch.cuda._sleep(200_000)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / calls)
        return statistics.median(times)

    measure.keep = (graph, sets)  # type: ignore[attr-defined]  # the graph's memory lives as long as what replays it
    return measure


def call_microseconds(run: Callable[..., Any], given: Sequence[torch.Tensor], calls: int = 300) -> float:
    """Wall time of one call in a loop, waiting once at the end."""
    for _ in range(10):
        run(*given)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        run(*given)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) * 1e6 / calls


def say(cells: Sequence[str]) -> None:
    print(" | ".join(cells), flush=True)


def kernel_rows(systems: Sequence[str], wanted: str) -> None:
    copy = kernel_microseconds(torch.clone, lambda: [rand(16384, 4096)], 268)
    full = 268.435 / copy()  # MB per microsecond
    say([f"100 % is {full * 1e3:.0f} GB/s", "kernels only: us (% of copy) for", *systems, "rule %"])
    for row in ROWS:
        if wanted not in row.name:
            continue
        cells, measures = [row.name], {}
        for name in systems:
            try:
                measures[name] = kernel_microseconds(system(name, row.fn), row.make, row.megabytes)
            except Exception as error:  # noqa: BLE001  a row that fails is a result
                measures[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                torch.cuda.synchronize()
        found: dict[str, list[float]] = {name: [] for name in systems}
        for _ in range(2):
            for name, measure in measures.items():
                if callable(measure):
                    found[name].append(measure())
        for name in systems:
            us = min(found[name], default=0.0)
            cells.append(f"{us:.1f} ({row.megabytes / us / full * 100:.0f} %)" if us else str(measures[name]))
        say([*cells, f"{row.rule:.0f}"])
        measures.clear()
        torch.cuda.empty_cache()


def call_rows(systems: Sequence[str], wanted: str) -> None:
    systems = [*systems, *(f"{name} graphs" for name in systems if name in ("ours", "peer"))]
    say(["calls, launching included: us for", *systems, "first call s"])
    for name, fn, make in CALLS:
        if wanted not in name:
            continue
        given = make()
        runs, first = {}, []
        for kind in systems:
            began = time.perf_counter()
            runs[kind] = system(kind, fn)
            runs[kind](*given)
            torch.cuda.synchronize()
            first.append(f"{time.perf_counter() - began:.2f}")
        times: dict[str, list[float]] = {kind: [] for kind in systems}
        for _ in range(3):
            for kind, run in runs.items():
                times[kind].append(call_microseconds(run, given))
        say([name, *(f"{min(times[kind]):.1f}" for kind in systems), " ".join(first)])


def launch_rows(systems: Sequence[str], wanted: str) -> None:
    """Calls of the rows of kernels in a loop, where each waits for the one before or for the host."""
    say(["launching included: us for", *systems, "slower than the peer"])
    for row in ROWS:
        if wanted not in row.name:
            continue
        given = row.make()
        runs = {kind: system(kind, row.fn) for kind in systems}
        times: dict[str, list[float]] = {kind: [] for kind in systems}
        try:
            for _ in range(3):
                for kind, run in runs.items():
                    times[kind].append(call_microseconds(run, given, max(5, min(200, int(60 / max(row.megabytes, 0.3))))))
        except Exception as error:  # noqa: BLE001  a row that fails is a result
            say([row.name, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"])
            continue
        least = {kind: min(found) for kind, found in times.items()}
        worse = least["ours"] / least["peer"] if {"ours", "peer"} <= least.keys() else 0.0
        say([row.name, *(f"{us:.1f}" for us in least.values()), f"{worse:.2f}x" if worse > 1.005 else ""])
        del given, runs
        torch.cuda.empty_cache()


def warm_rows(systems: Sequence[str], wanted: str, part: int, parts: int) -> None:
    for row in [row for row in ROWS if wanted in row.name][part::parts]:
        for name in systems:
            try:
                system(name, row.fn)(*row.make())
            except Exception as error:  # noqa: BLE001  the run that takes times says so too
                say([row.name, name, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"])
        torch.cuda.empty_cache()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="eager,ours,peer", help="of eager, ours, peer")
    parser.add_argument("--rows", default="", help="only rows whose name has this")
    parser.add_argument("--only", choices=["kernels", "calls", "launches"], help="one part; kernels and calls without this")
    parser.add_argument("--warm", metavar="PART/PARTS", help="fill the caches with a part of the rows, and take no times")
    options = parser.parse_args()
    systems = options.systems.split(",")
    say([torch.cuda.get_device_name(), f"torch {torch.__version__}", f"Python {sys.version.split()[0]}", time.strftime("%Y-%m-%d")])
    with torch.no_grad():
        if options.warm:
            warm_rows(systems, options.rows, *map(int, options.warm.split("/")))
            return 0
        if options.only in (None, "calls"):
            call_rows(systems, options.rows)
        if options.only in (None, "kernels"):
            kernel_rows(systems, options.rows)
        if options.only == "launches":
            launch_rows(systems, options.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
