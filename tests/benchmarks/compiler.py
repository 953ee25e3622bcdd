"""The compiler beside eager and torch.compile: `make bench-compiler`, or `python -m tests.benchmarks.compiler --help`.

First calls are taken in new processes with empty caches (cold), then again with the caches those left (second). The peer's
imports and probes are shown apart. Steady-state times are interleaved in one process per row; `faults` are the page faults of an average
call of each engine. Where memory comes to lie differs from process to process, so `--repeats` takes the least of several.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.benchmarks.measuring import precompile
from tests.benchmarks.workloads import WORKLOADS, Workload

PARTS = ("first", "steady", "memory")
CACHES = {"ours": "DYNAMO_CACHE_DIR", "peer": "TORCHINDUCTOR_CACHE_DIR"}
# One row stands for the small ones where each process costs the peer many seconds.
FIRST_CALLS = (
    "sin+cos 10x10",
    "softmax(sin+cos) 2048x1024",
    "layer_norm 2048x1024",
    "rms_norm(x+r) 2048x1024",
    "mlp of 10 blocks with gradients",
)
TIMEOUT = 1800


@dataclass
class Table:
    """Rows for people on stdout, and the same as data for `--json`."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        shown = [f"{v:10.3f}" if isinstance(v, float) else f"{v!s:10}" for k, v in row.items() if k not in ("part", "name")]
        print(f"{row['part']:8} {row['name']:34} {' '.join(shown)}".rstrip(), flush=True)

    def heading(self, *names: str) -> None:
        print(f"\n{'':8} {'':34} {' '.join(f'{n:>10}' for n in names)}", flush=True)


def run_worker(*arguments: str, **environment: str) -> dict[str, float] | None:
    """What a worker printed; None, with its last words on stderr, where it failed."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.worker", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        print(f"{' '.join(arguments)}: not done in {TIMEOUT} s", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def first_calls(workloads: Sequence[Workload], table: Table, repeats: int) -> None:
    """Cold and second-process first calls: seconds, ours and the peer's, with and without imports and probes."""
    table.heading("ours", "peer", "ratio", "ours all", "peer all", "ratio")
    for workload in workloads:
        least: dict[tuple[str, str], dict[str, float]] = {}
        for _ in range(repeats):
            for engine, variable in CACHES.items():
                with tempfile.TemporaryDirectory() as folder:
                    for when in ("cold", "second"):
                        seen = run_worker("first", workload.name, "--engine", engine, **{variable: folder})
                        old = least.get((when, engine))
                        if seen is not None and (old is None or seen["total"] < old["total"]):
                            least[when, engine] = seen
        for when in ("cold", "second"):
            if (when, "ours") in least and (when, "peer") in least:
                ours, peer = least[when, "ours"], least[when, "peer"]
                table.add(
                    part=when,
                    name=workload.name,
                    ours=ours["first"],
                    peer=peer["first"],
                    ratio=ours["first"] / peer["first"],
                    ours_all=ours["total"],
                    peer_all=peer["total"],
                    ratio_all=ours["total"] / peer["total"],
                )


def steady_state(workloads: Sequence[Workload], table: Table, threads: int, seconds: float, engines: str, repeats: int) -> None:
    table.heading("eager us", "ours us", "peer us", "eager/ours", "peer/ours", "faults")
    for workload in workloads:
        arguments = ("--threads", str(threads), "--seconds", str(seconds), "--engines", engines)
        seen = [found for _ in range(repeats) if (found := run_worker("steady", workload.name, *arguments)) is not None]
        if seen:
            row = {engine: min(found.get(engine, math.nan) for found in seen) for engine in ("eager", "ours", "peer")}
            faults = [min(found[f"{engine} faults"] for found in seen) for engine in engines.split(",")]
            table.add(
                part=f"{threads} thr",
                name=workload.name,
                **row,
                over_eager=row["eager"] / row["ours"],
                over_peer=row["peer"] / row["ours"],
                faults="/".join(f"{count:.0f}" for count in faults),
            )


def peak_memory(workloads: Sequence[Workload], table: Table) -> None:
    table.heading("eager MB", "ours MB", "ratio")
    for workload in workloads:
        seen = {engine: run_worker("memory", workload.name, "--engine", engine) for engine in ("eager", "ours")}
        eager, ours = seen["eager"], seen["ours"]
        if eager is not None and ours is not None:
            table.add(
                part="memory", name=workload.name, eager=eager["peak"] / 1e6, ours=ours["peak"] / 1e6, ratio=ours["peak"] / eager["peak"]
            )


def geomean(values: Iterable[float]) -> float:
    logs = [math.log(v) for v in values if v > 0 and not math.isnan(v)]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def targets(table: Table) -> Iterator[tuple[str, bool]]:
    """Each target of the compiler that the rows speak to, and whether it holds."""
    rows = table.rows
    kinds = {w.name: w.kind for w in WORKLOADS}
    timed = [r for r in rows if r["part"].endswith("thr")]
    for row in timed:
        if row["name"] == "sin+cos 10x10":
            fast = row["ours"] < row["eager"] and not row["over_peer"] < 10
            yield f"per call, {row['part']}: 1/{row['over_peer']:.1f} of the peer (1/10), {row['over_eager']:.2f}x eager (> 1)", fast
        if row["name"] == "sin+cos 10x10 with gradients":
            yield f"forward and backward per call, {row['part']}: {row['over_eager']:.2f}x eager (> 1)", row["over_eager"] > 1
    for part in dict.fromkeys(r["part"] for r in timed):
        small = [r for r in timed if r["part"] == part and kinds[r["name"]] in ("call", "grad")]
        models = [r for r in timed if r["part"] == part and kinds[r["name"]] in ("eval", "train")]
        if small and any(not math.isnan(r["over_peer"]) for r in small):
            mean = geomean(r["over_peer"] for r in small)
            yield f"small cases, {part}: geomean {mean:.2f}x the peer (1.4x)", mean >= 1.4
        slow = [f"{r['name']} {r['over_eager']:.2f}x" for r in timed if r["part"] == part and r["over_eager"] < 0.95]
        yield f"no case over 5 % slower than eager, {part}: {'; '.join(slow) or 'none'}", not slow
        for row in models:
            over, ok = row["over_peer"], row["over_eager"] >= (1.15 if row["name"] == "resnet18 eval" else 1.0)
            yield f"{row['name']}, {part}: {row['over_eager']:.2f}x eager, {over:.2f}x the peer (1.05x)", ok and not over < 1.05
    for row in rows:
        if row["part"] in ("cold", "second"):
            limit = 5 if row["part"] == "cold" and row["name"] in ("resnet18 train", "bert train") else 8
            text = f"{row['part']} first call, {row['name']}: 1/{1 / row['ratio_all']:.1f} of the peer with imports,"
            yield f"{text} 1/{1 / row['ratio']:.1f} without (1/{limit})", row["ratio_all"] <= 1 / limit
        if row["part"] == "memory":
            yield f"peak memory, {row['name']}: {row['ratio']:.2f} of eager (1.00)", row["ratio"] <= 1.0


def machine() -> str:
    names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    gcc = subprocess.run(["gcc", "--version"], capture_output=True, text=True).stdout.splitlines()[:1]
    cpu = f"{names[0] if names else platform.machine()} x{os.cpu_count()}"
    return ", ".join([cpu, f"torch {torch.__version__}", f"Python {platform.python_version()}", *gcc])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.compiler", description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="which of %(default)s")
    parser.add_argument("--only", default="", help="rows whose name contains one of these, separated by commas")
    parser.add_argument("--kinds", default="call,grad,eval,train")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--engines", default="eager,ours,peer", help="sides of the steady-state rows")
    parser.add_argument("--seconds", type=float, default=1.0, help="time per steady-state row")
    parser.add_argument("--repeats", type=int, default=1, help="processes per first call and per steady-state row")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    options = parser.parse_args()
    wanted = [w for w in options.only.split(",") if w]
    workloads = [w for w in WORKLOADS if w.kind in options.kinds.split(",") and (not wanted or any(t in w.name for t in wanted))]
    if not workloads:
        parser.error(f"no row matches --only {options.only!r} --kinds {options.kinds!r}")
    print(machine())
    precompile()
    table = Table()
    parts = options.parts.split(",")
    if "first" in parts:
        chosen = [w for w in workloads if w.name in FIRST_CALLS or w.name in ("resnet18 train", "bert train") or (wanted and w)]
        first_calls(chosen, table, options.repeats)
    if "steady" in parts:
        for threads in options.threads.split(","):
            steady_state(workloads, table, int(threads), options.seconds, options.engines, options.repeats)
    if "memory" in parts:
        peak_memory([w for w in workloads if w.kind == "train" or "mlp" in w.name], table)
    print()
    for text, met in targets(table):
        print(f"{'met   ' if met else 'MISSED'} {text}")
    if options.json:
        Path(options.json).write_text(json.dumps(table.rows, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
