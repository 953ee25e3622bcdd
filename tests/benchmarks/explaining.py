"""What `explain` costs beside the plain run, under our engine and under torch's own.

    python -m tests.benchmarks.explaining [--rounds 5] [--jobs 1] [--short] [NAME ...]

Every script (those of `tests/scripts` that end by themselves and `repro_corpus/examples`, or those named) is run in four ways, one after
the other, `--rounds` times, each in a process of its own and with an empty cache: plain with `torch.compile` served by this compiler and
no record, under `explain`, plain under torch's own compiler, under `explain --engine torch` (not with `--short`). Prints medians of CPU
seconds (user and system, with all processes of a way), which a busy machine changes little, those on the clock in brackets, and ratios, as
a Markdown table.
Exits with 1 when `explain` takes more than 1.3 of the plain run under our engine, or longer than the plain run under torch's.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.benchmarks.measuring import precompile
from tests.scripts.script import COMMAND, FOLDER, ROOT, Script, scripts

EXAMPLES = Path(__file__).resolve().parents[2] / "repro_corpus" / "examples"
# Every process that the script starts begins with it.
OURS = "from dynamo.peer.script_adapter import install_when_torch_loads\ninstall_when_torch_loads()\n"
WAYS = ("plain", "explain", "torch plain", "torch explain")
LIMIT = 1.3


class Cost(NamedTuple):
    """Seconds of CPU, and on the clock."""

    cpu: float
    clock: float


class Uncomparable(Exception):
    """The script ends otherwise in this way. The text says how."""


def examples() -> list[Script]:
    return [Script(p.stem, (str(p),), 0, {}, "", "", (), (), False) for p in sorted(EXAMPLES.glob("*.py")) if p.stem != "__init__"]


def command(way: str, script: Script) -> list[str]:
    if way in ("plain", "torch plain"):
        return [sys.executable, *script.arguments]
    return [*COMMAND, "explain", *(("--engine", "torch") if way.startswith("torch") else ()), *script.arguments]


def cost(way: str, script: Script) -> Cost:
    """What one run of it costs, with its children. Uncomparable where the script does not end as it should."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(ROOT)]
        if way == "plain":
            (Path(folder) / "sitecustomize.py").write_text(OURS)
            paths.insert(0, folder)
        caches = {"DYNAMO_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": folder}
        env = {**os.environ, **caches, **script.env, "NO_COLOR": "1"}
        if way != "torch plain":
            env["PYTHONPATH"] = os.pathsep.join(paths)
        given = (FOLDER / script.stdin).open("rb") if script.stdin else subprocess.DEVNULL
        began = time.perf_counter()
        with open(Path(folder) / "printed", "wb") as printed:
            process = subprocess.Popen(command(way, script), cwd=FOLDER, env=env, stdin=given, stdout=printed, stderr=printed)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        clock = time.perf_counter() - began
    # Torch's compiler leaves 1 for Python's own end by SIGINT, as `explain` does; the adapter alone leaves Python's.
    if code != script.exit and not (way == "plain" and code == -signal.SIGINT):
        raise Uncomparable(f"{script.name}: {way} ends with {code}, not {script.exit}")
    return Cost(used.ru_utime + used.ru_stime, clock)


def measure(script: Script, rounds: int, ways: Sequence[str]) -> dict[str, Cost]:
    """Medians of every way; the ways take turns, so that a busy machine meets all of them."""
    found: dict[str, list[Cost]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, costs in found.items():
            costs.append(cost(way, script))
    return {way: Cost(median(c.cpu for c in costs), median(c.clock for c in costs)) for way, costs in found.items()}


def row(name: str, costs: dict[str, Cost]) -> tuple[str, bool]:
    """Its line of the table, and whether it is within the limits."""
    cpu = {way: found.cpu for way, found in costs.items()}
    ratio, beside = cpu["explain"] / cpu["plain"], cpu["explain"] / cpu["torch plain"]
    cells = [f"{found.cpu:.2f} ({found.clock:.2f})" for found in costs.values()]
    return f"| {name} | {' | '.join(cells)} | {ratio:.2f} | {beside:.2f} |", ratio <= LIMIT and beside <= 1.0


def chosen(names: Sequence[str]) -> list[Script]:
    known = {script.key: script for script in (*examples(), *scripts())}
    return [known[name] for name in names] if names else list(known.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="leave out the way that no limit is about")
    options = parser.parse_args()
    precompile()
    ways = WAYS[:-1] if options.short else WAYS
    print(f"| script | {' | '.join(f'{way}, s' for way in ways)} | explain/plain | explain/torch plain |\n|{'---|' * (len(ways) + 3)}")
    missed = []

    def one(script: Script) -> None:
        try:
            line, met = row(script.key, measure(script, options.rounds, ways))
        except Uncomparable as e:
            line, met = f"| {e} |", True
        print(line, flush=True)
        if not met:
            missed.append(script.key)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, chosen(options.names)))
    print(f"\nover the limits: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
