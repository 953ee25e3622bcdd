"""Kernels over short rows on a GPU, by rows and warps of a program: `python -m tests.benchmarks.gpu_rows [--sweep]`.

Microseconds of one call, of several in a CUDA graph on the same tensors: what stays in the cache of the device is read from there. `plain`
is a tile of 2,048 elements and 4 warps whatever the row, `rules` what the rules make; `--sweep` tries all that give a thread 2 to 32
elements. With `--warm K/N` kernels are compiled and no times are taken: N processes fill the cache for one that does.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F

import dynamo
from dynamo import config
from inductor.targets import registry
from inductor.targets.triton import machine
from inductor.targets.triton.machine import TILE, WARP, Device, Facts, Shape, power
from tests.benchmarks.gpu_columns import microseconds

COLUMNS = 24, 31, 32, 49, 64, 77, 100, 128, 197, 256, 384, 512, 768, 1024, 1500, 2048
ROWS = 16, 128, 2048, 32768
TYPES = torch.float32, torch.bfloat16


def softmax(x: torch.Tensor, *_: torch.Tensor) -> Any:
    return x.softmax(1)


def softmax_backward(x: torch.Tensor, g: torch.Tensor, *_: torch.Tensor) -> Any:
    return x * (g - (x * g).sum(1, keepdim=True))


def layer_norm(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    return F.layer_norm(x, x.shape[1:], w, b)


def rms_norm(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    h = (x + g).float()
    return (h * torch.rsqrt(h.square().mean(1, keepdim=True) + 1e-6)).to(x.dtype) * w


def many_reads(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    a, c = x.flip(0), g.flip(0)
    s, d = (g * (x > 0) * a).sum(1, keepdim=True), (g * x * c).amax(1, keepdim=True)
    return (g - s * 0.01 - x * d * 0.01) * w + a * s + c * b, s, d


def total(x: torch.Tensor, *_: torch.Tensor) -> Any:
    return x.sum(1)


def cumsum(x: torch.Tensor, *_: torch.Tensor) -> Any:
    return x.cumsum(1)


Rule = Callable[[Facts, Device], Shape]
rules: Rule = machine.row


def tiles(rows: int, warps: int) -> Rule:
    def row(facts: Facts, device: Device) -> Shape:
        shape = rules(facts, device)
        return shape if facts.columns > TILE or shape.is_looped else Shape(shape.kind, min(rows, power(facts.rows)), shape.columns, warps)

    return row


def variants(rows: int, columns: int, *, sweep: bool) -> Iterator[tuple[str, Rule]]:
    wide = power(columns)
    plain = min(TILE // wide, power(rows))
    yield "plain", tiles(plain, 4 if plain * wide >= 512 else 1)
    yield "rules", rules
    for warps in (1, 2, 4, 8) if sweep else ():
        for each in (2, 4, 8, 16, 32):
            some = each * WARP * warps // wide
            if 1 <= some <= min(power(rows), 64):
                yield f"{some} rows {warps} warps", tiles(some, warps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm", metavar="PART/PARTS", help="compile a part of the kernels, and take no times")
    parser.add_argument("--sweep", action="store_true", help="every shape, not only those of the rules")
    parser.add_argument("--only", default="softmax,softmax_backward,layer_norm,rms_norm,many_reads,total", help="functions, by comma")
    options = parser.parse_args()
    part, parts = map(int, (options.warm or "0/1").split("/"))
    config.graph_cache = False  # its keys know nothing of shapes that are forced
    fns = [globals()[name] for name in options.only.split(",")]
    everything = [
        (dtype, r, c, fn, *v) for dtype in TYPES for c in COLUMNS for r in ROWS for fn in fns for v in variants(r, c, sweep=options.sweep)
    ]
    print(f"{torch.cuda.get_device_name()} | torch {torch.__version__} | {len(everything)} kernels", flush=True)
    gains: dict[str, list[float]] = defaultdict(list)
    given: list[torch.Tensor] = []
    plain = 0.0
    for dtype, r, c, fn, name, rule in everything[part::parts]:
        dynamo.reset()
        registry.target.cache_clear()
        with patch.object(machine, "row", rule), torch.no_grad():
            if not given or given[0].dtype != dtype or given[0].shape != (r, c):
                given = [torch.randn(shape, device="cuda", dtype=dtype) for shape in ((r, c), (r, c), (c,), (c,))]
            compiled = dynamo.compile(fn, backend="inductor")
            compiled(*given)
            if options.warm:
                continue
            took = microseconds(compiled, given)
            plain = took if name == "plain" else plain
            print(f"{fn.__name__} {str(dtype)[6:]} {r}x{c} | {name} | {took:.2f} us | {plain / took:.2f}", flush=True)
            if name == "rules":
                gains[f"{str(dtype)[6:]} {r} rows"].append(plain / took)
    for which, found in gains.items():
        print(f"{which}: {math.exp(sum(map(math.log, found)) / len(found)):.3f} times as fast, {min(found):.2f} to {max(found):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
