"""A revision beside the working tree: `python -m tests.benchmarks.before_after REVISION [--rounds N] [--only PART]`.

Each side is copied into a folder of its own and built there; both get the tests of the working tree, so both are asked the same.
New processes of `probe.py` run in turn: old, new, new, old, and so on, each with an empty cache. A row is the ratio of the least old
cost to the least new one: above 1 the new one is faster. The end is the geometric mean and the worst row. `--sides FOLDER` keeps both.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.probe import FIRST

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dynamo", "inductor")
# What a probe is asked, and how many times as often as `--rounds` says: short processes differ more from one to the next.
PROBES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("import",), 4),
    (("calls",), 1),
    (("captures",), 1),
    *((("first", name), 1) for name in FIRST),
    (("kernels",), 1),
)
LIMIT = 1200  # seconds of one process

Costs = dict[str, float]


def copied(folder: Path, revision: str | None) -> Path:
    """A built copy of a revision, or of the working tree, with the working tree's tests; one that is there already is left as it is."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    if revision is not None:
        _unpack(["git", "archive", revision], folder)
        shutil.rmtree(folder / "tests")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *(["tests"] if revision is not None else [])]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True, stdout=sys.stderr)
    for package in PACKAGES:
        compileall.compile_dir(folder / package, quiet=1)
    return folder


def _unpack(command: list[str], folder: Path) -> None:
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x"], cwd=folder, check=True, input=archive)


def probe(side: Path, question: tuple[str, ...], seconds: float, cache: Path) -> Costs:
    """What a new process of one side answers. Raises RuntimeError with its last words."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.probe", *question, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(side), "OMP_NUM_THREADS": "1", "DYNAMO_CACHE_DIR": str(cache)}
    done = subprocess.run(command, cwd=side, env=environment, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{side.name}: {' '.join(question)}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _lower(least: Costs, found: Costs) -> None:
    for name, cost in found.items():
        least[name] = min(least.get(name, math.inf), cost)


def measured(sides: tuple[Path, Path], rounds: int, seconds: float, only: str) -> Iterator[tuple[str, float, float]]:
    """Rows of (name, least old cost, least new cost), a question at a time."""
    for question, times in PROBES:
        if only not in " ".join(question):
            continue
        least: tuple[Costs, Costs] = ({}, {})
        for round in range(rounds * times):
            for index in (0, 1) if round % 2 == 0 else (1, 0):
                with tempfile.TemporaryDirectory() as cache:
                    _lower(least[index], probe(sides[index], question, seconds, Path(cache)))
        yield from ((name, least[0][name], cost) for name, cost in least[1].items())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.before_after", description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side for a row (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.15, help="of each call that is repeated, in each process (%(default)s)")
    parser.add_argument("--only", default="", help="part of a question: import, calls, captures, first NAME, kernels")
    parser.add_argument("--sides", type=Path, help="a folder for both copies, made if they are missing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.sides or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = (copied(folder / "old", options.revision), copied(folder / "new", None))
        rows = []
        for name, old, new in measured(sides, options.rounds, options.seconds, options.only):
            rows.append({"name": name, "old": old, "new": new, "ratio": old / new})
            print(f"{name:64} {old:12.5f} {new:12.5f} {old / new:6.3f}", file=sys.stderr if options.json else sys.stdout, flush=True)
    ratios = [row["ratio"] for row in rows]
    geomean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    worst = min(rows, key=lambda row: row["ratio"])
    if options.json:
        print(json.dumps({"rows": rows, "geomean": geomean, "worst": worst}, indent=2))
    else:
        print(f"\n{len(rows)} rows, old to new: geomean {geomean:.3f}, worst {worst['ratio']:.3f} ({worst['name']})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
