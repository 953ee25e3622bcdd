"""Memory over rounds of compiling a model, calling it and dropping it: `python -m tests.benchmarks.rounds [--rounds N] [--backend NAME]`.

A round is a model of its own, with weights of its own, compiled, called and differentiated. Prints resident memory in MB and the
objects that Python's collector knows every tenth of the rounds. Exits with 1 if either grows after the first fifth, when caches and
the bounded store of events are full.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import warnings

import torch
from torch import nn

import dynamo

GROWN = 4.0  # MB that the allocator may take more
MORE = 100  # objects


def one(seed: int, backend: str) -> None:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    compiled = dynamo.compile(model, backend=backend)
    compiled(torch.randn(4, 64)).sum().backward()


def resident() -> float:
    """MB of this process that are in memory now."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 1e6


def objects() -> int:
    """Apart from records of events, which go when there are too many."""
    return sum(type(o).__module__ != "dynamo.trace.events" and type(o) is not dict for o in gc.get_objects())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.rounds", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seen: list[tuple[float, int]] = []
    for i in range(options.rounds):
        one(i, options.backend)
        if (i + 1) % max(options.rounds // 10, 1) == 0:
            gc.collect()
            seen.append((resident(), objects()))
            print(f"round {i + 1:5}  {seen[-1][0]:8.1f} MB  {seen[-1][1]:8} objects", flush=True)
    warm = seen[min(1, len(seen) - 1)]
    grown, more = seen[-1][0] - warm[0], seen[-1][1] - warm[1]
    print(f"{options.backend}: {grown:+.1f} MB and {more:+} objects after the first fifth")
    return int(grown > GROWN or more > MORE)


if __name__ == "__main__":
    sys.exit(main())
