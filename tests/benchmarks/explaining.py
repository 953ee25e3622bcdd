"""What `explain` costs beside the plain run, under our engine and under torch's own.

    python -m tests.benchmarks.explaining [--rounds 5] [SCRIPT ...]

Every script is run in four ways, one after the other, `--rounds` times, each in a process of its own and with an empty cache: plain with
`torch.compile` served by this compiler and no record, under `explain`, plain under torch's own compiler, under `explain --engine torch`.
Prints medians of CPU seconds (user and system, of all processes of a way), which a busy machine changes little, and ratios. Exits with 1
when `explain` takes more than 1.3 of the plain run under our engine, or longer than the plain run under torch's.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

EXAMPLES = Path(__file__).resolve().parents[2] / "repro_corpus" / "examples"
SCRIPTS = ("graph_break", "module", "recompiles", "training")
OURS = """
import runpy, sys
import torch, dynamo
dynamo.install_as_torch_compile()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
EXPLAIN = "from tui.main import main; main()"
LIMIT = 1.3


def ways(script: str) -> dict[str, list[str]]:
    """What is compared, by name."""
    return {
        "plain": [sys.executable, "-c", OURS, script],
        "explain": [sys.executable, "-c", EXPLAIN, "explain", script],
        "torch plain": [sys.executable, script],
        "torch explain": [sys.executable, "-c", EXPLAIN, "explain", "--engine", "torch", script],
    }


def seconds(command: Sequence[str]) -> float:
    """CPU seconds of a command and its children."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"DYNAMO_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
        before = _spent()
        subprocess.run(command, check=True, env={**os.environ, **caches}, stdin=subprocess.DEVNULL, capture_output=True)
        return _spent() - before


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(script: str, rounds: int) -> dict[str, float]:
    """Median seconds of every way; the ways take turns, so that a busy machine meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways(script)}
    for _ in range(rounds):
        for name, command in ways(script).items():
            found[name].append(seconds(command))
    return {name: median(times) for name, times in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    missed = False
    for script in options.scripts or [str(EXAMPLES / f"{name}.py") for name in SCRIPTS]:
        m = measure(script, options.rounds)
        ratio, beside = m["explain"] / m["plain"], m["explain"] / m["torch plain"]
        missed = missed or ratio > LIMIT or beside > 1.0
        times = "  ".join(f"{name} {value:.2f} s" for name, value in m.items())
        print(f"{Path(script).name:<16} {times}  explain/plain {ratio:.2f}  explain/torch plain {beside:.2f}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
