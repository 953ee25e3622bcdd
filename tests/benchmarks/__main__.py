"""Measurements side by side with torch's own compiler: `make bench`, or `python -m tests.benchmarks [--json] [NAME ...]`."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable

import torch
import torch._dynamo

from tests.benchmarks import calls, captures
from tests.benchmarks.measuring import Result, precompile

BENCHMARKS: dict[str, Callable[[int], list[Result]]] = {
    "overhead": calls.overhead,
    "tensor-guards": calls.guards_per_tensor,
    "module-guards": calls.guards_of_module,
    "capture": captures.warm,
    "capture-cold": captures.cold,
    "import": captures.importing,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run: {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of which the least time counts (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    warnings.simplefilter("ignore")

    precompile()
    results: list[Result] = []
    for name in options.names or BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results += BENCHMARKS[name](options.rounds)
    if options.json:
        print(json.dumps([row(result) for result in results], indent=2))
    else:
        print(table(results))
    return 0


def row(result: Result) -> dict[str, object]:
    return {
        "name": result.name,
        "ours": result.ours,
        "peer": result.peer,
        "unit": result.unit,
        "ratio": result.ratio,
        "target": result.target,
        "met": result.met,
    }


def table(results: list[Result]) -> str:
    lines = [f"torch {torch.__version__}, {torch.get_num_threads()} threads; least of many rounds, both sides in turn", ""]
    lines.append(f"{'':40} {'ours':>10} {'peer':>10}      {'ratio':>6}  target")
    for result in results:
        peer = f"{result.peer:10.3f}" if result.peer is not None else " " * 10
        ratio = f"{result.ratio:6.3f}" if result.ratio is not None else " " * 6
        met = {True: "met", False: "MISSED", None: ""}[result.met]
        lines.append(f"{result.name:40} {result.ours:10.3f} {peer} {result.unit:3}  {ratio}  {result.target:14} {met}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
