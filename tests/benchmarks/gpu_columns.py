"""Norms of small channels-last images on a GPU, by shapes that hold a column: `python -m tests.benchmarks.gpu_columns`.

Forward is a batch norm with its statistics and a relu, backward the gradients of both. Microseconds of one call, of 20 in a CUDA graph on
the same tensors, which stay in the cache as what was just computed does. `apart` is what the rules make where no program may hold columns.
With `--warm K/N` kernels are compiled and no times are taken: N processes fill the cache for one that does.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

import dynamo
from dynamo import config
from inductor.targets import registry
from inductor.targets.triton import machine, target
from inductor.targets.triton.machine import Device, Facts, Shape, power

aten = torch.ops.aten
SIZES = [(16, 512, 4), (16, 1024, 4), (16, 128, 8), (16, 512, 8), (16, 512, 7), (64, 512, 7), (16, 128, 16), (16, 256, 16)]  # n, c, h = w
EVERYTHING = {"below": 1 << 30, "kept_buffers": 64, "long_reduction": 1 << 30, "alone": 1 << 30}
CALLS, REPLAYS = 20, 9

Limits = dict[str, int]


def forward(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> Any:
    out, *statistics_of = aten._native_batch_norm_legit_functional(x, w, b, mean, var, True, 0.1, 1e-5)
    return out.relu(), *statistics_of


def backward(grad: torch.Tensor, out: torch.Tensor, x: torch.Tensor, w: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor) -> Any:
    return aten.native_batch_norm_backward(aten.threshold_backward(grad, out, 0), x, w, None, None, mean, rstd, True, 1e-5, [True] * 3)


def given_for(fn: Callable[..., Any], n: int, c: int, side: int) -> list[torch.Tensor]:
    images, rest = (1, 4) if fn is forward else (3, 3)
    given = [torch.randn(n, c, side, side, device="cuda").to(memory_format=torch.channels_last) for _ in range(images)]
    return given + [torch.rand(c, device="cuda") + 0.5 for _ in range(rest)]


def held(side: int, warps: int) -> Callable[[Facts, Device], Shape]:
    return lambda facts, device: Shape("column", min(side, power(facts.rows)), power(facts.columns), warps)


def variants(rows: int) -> Iterator[tuple[str, Callable[[Facts, Device], Shape], Limits]]:
    yield "apart", machine.column, {"below": 0}
    yield "rules", machine.column, {}
    for side in (4, 8, 16, 32):
        for warps in (4, 8, 16, 32):
            if 4 <= side * power(rows) // (32 * warps) <= 64:
                yield f"{side} x {power(rows)}, {warps} warps", held(side, warps), EVERYTHING


def microseconds(fn: Callable[..., Any], given: list[torch.Tensor]) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            fn(*given)
    times = []
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm", metavar="PART/PARTS", help="compile a part of the kernels, and take no times")
    options = parser.parse_args()
    part, parts = map(int, (options.warm or "0/1").split("/"))
    config.graph_cache = False  # its keys know nothing of shapes that are forced
    limits_of = target.limits_of
    everything = [(n, c, side, fn, *v) for n, c, side in SIZES for fn in (forward, backward) for v in variants(n * side * side)]
    print(f"{torch.cuda.get_device_name()} | torch {torch.__version__}", flush=True)
    for n, c, side, fn, name, column, limits in everything[part::parts]:
        dynamo.reset()
        registry.target.cache_clear()
        changed = patch.object(target, "limits_of", lambda device, limits=limits: replace(limits_of(device), **limits))
        with changed, patch.object(machine, "column", column), torch.no_grad():
            given = given_for(fn, n, c, side)
            compiled = dynamo.compile(fn, backend="inductor")
            found, expected = compiled(*given), fn(*given)
            off = max(float((a - b).abs().max()) for a, b in zip(found, expected, strict=True))
            if not options.warm:
                print(
                    f"{fn.__name__} {n}x{c}x{side}x{side} | {name} | {microseconds(compiled, given):.2f} us | off by {off:.1e}", flush=True
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
