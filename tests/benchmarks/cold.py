"""First calls with empty caches, in new processes: `python -m tests.benchmarks.cold [--only NAME] [--repeats N]`.

Prints seconds of the whole first call, processor seconds of Python and of the C compiler, and machine code: all of it and the largest
function. Rows of unrolled loops come in two lengths; `growth` is how much longer the doubled loop takes, in processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.models import torchvision_ops

Prepared = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


class Decoder(nn.Module):
    """Each step reads what the last one wrote."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.cell, self.out, self.steps = nn.LSTMCell(32, 64), nn.Linear(64, 32), steps

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        made = []
        for _ in range(self.steps):
            h, c = self.cell(x, (h, c))
            x = torch.tanh(self.out(h))
            made.append(x)
        return torch.stack(made)


class Encoder(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.cell, self.steps = nn.GRUCell(32, 64), steps

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        for i in range(self.steps):
            h = self.cell(x[i], h)
        return h


def image_model(name: str, size: int) -> Prepared:
    torchvision_ops.declare()
    import timm

    return timm.create_model(name, pretrained=False).eval(), (torch.randn(2, 3, size, size),)


def decode(steps: int) -> Prepared:
    return Decoder(steps), (torch.randn(4, 32), torch.zeros(4, 64), torch.zeros(4, 64))


def encode(steps: int) -> Prepared:
    return Encoder(steps), (torch.randn(steps, 4, 32), torch.zeros(4, 64))


# name: (what, with gradients, steps of the loop or 0)
ROWS: dict[str, tuple[Callable[[int], Prepared], bool, int]] = {
    "maxvit_rmlp_pico_rw_256": (lambda _: image_model("maxvit_rmlp_pico_rw_256", 256), False, 0),
    "nfnet_l0": (lambda _: image_model("nfnet_l0", 224), False, 0),
    "swinv2_tiny_window8_256 with backward": (lambda _: image_model("swinv2_tiny_window8_256", 256), True, 0),
    "lstm decode": (decode, False, 150),
    "lstm decode with backward": (decode, True, 150),
    "gru with backward": (encode, True, 60),
}


def measure(name: str, times: int) -> dict[str, float]:
    """One cold first call, in this process."""
    import dynamo

    make, train, steps = ROWS[name]
    torch.manual_seed(0)
    fn, args = make(steps * times)
    compiled = dynamo.compile(fn)
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    began = time.perf_counter()
    with torch.set_grad_enabled(train):
        out = compiled(*args)
        if train:
            out.sum().backward()
    wall = time.perf_counter() - began
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    python, compiler = (b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))
    return {"wall": wall, "python": python, "compiler": compiler, **machine_code(Path(os.environ["DYNAMO_CACHE_DIR"]))}


def machine_code(folder: Path) -> dict[str, float]:
    from tests.inductor.code_size import code_sizes

    sizes = [size for library in folder.glob("kernels/*/*.so") for size in code_sizes(library).values()]
    return {"code": float(sum(sizes)), "largest": float(max(sizes, default=0))}


def in_new_process(name: str, times: int, repeats: int) -> dict[str, float]:
    least: dict[str, float] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "DYNAMO_GRAPH_CACHE": "0", "DYNAMO_CACHE_DIR": folder}
            command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.cold", "--worker", name, "--times", str(times)]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        seen = json.loads(done.stdout.splitlines()[-1])
        least = {k: min(v, least.get(k, v)) for k, v in seen.items()}
    return least


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cold", description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--times", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, options.times)))
        return 0
    print(f"{'':34} {'wall s':>8} {'python s':>8} {'C s':>8} {'code KB':>8} {'largest':>8} {'growth':>8}")
    for name, (_, _, steps) in ROWS.items():
        if options.only not in name:
            continue
        whole: list[float] = []
        for times in (1, 2) if steps else (1,):
            row = in_new_process(name, times, options.repeats)
            whole.append(row["python"] + row["compiler"])
            shown = f"{name} {steps * times}" if steps else name
            growth = f"{whole[-1] / whole[0]:8.2f}" if times > 1 else ""
            print(f"{shown:34} {row['wall']:8.1f} {row['python']:8.1f} {row['compiler']:8.1f}", end=" ")
            print(f"{row['code'] / 1024:8.0f} {row['largest']:8.0f} {growth}".rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
