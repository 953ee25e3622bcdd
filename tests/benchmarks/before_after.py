"""A revision beside the working tree: `python -m tests.benchmarks.before_after REVISION [--rounds N] [--only PART] [--minutes M]`.

Each side is copied into a folder of its own and built there; both get the tests of the working tree, so both are asked the same.
New processes of `probe.py` run in turn: old, new, new, old, and so on, each with an empty cache; a round asks every question, the most
important first. A row is the ratio of the least old cost to the least new one: above 1 the new one is faster. The end is the geometric
mean and the worst row, of what there was time for. `--sides FOLDER` keeps both; `--old-tree FOLDER` has the revision's files where git
is not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks.probe import FIRST

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("dynamo", "inductor")
# What a probe is asked, and how many times as often as `--rounds` says: short processes differ more from one to the next.
SOFTMAX = "softmax(sin+cos) 2048x1024"
PROBES: tuple[tuple[tuple[str, ...], int], ...] = (
    (("first", SOFTMAX), 2),
    (("import",), 4),
    (("calls",), 1),
    *((("first", name), 1) for name in FIRST if name != SOFTMAX),
    (("captures",), 1),
    (("kernels",), 1),
)
LIMIT = 1200  # seconds of one process
NOT_SOURCE = shutil.ignore_patterns(".*", "build", "dist", "__pycache__", "*.so", "*.egg-info")

Costs = dict[str, float]


def copied(folder: Path, source: Path, tests: Path) -> Path:
    """A built copy of a tree with the tests of another; one that is there already is left as it is."""
    if folder.exists():
        return folder
    shutil.copytree(source, folder, ignore=NOT_SOURCE)
    shutil.rmtree(folder / "tests", ignore_errors=True)
    shutil.copytree(tests, folder / "tests", ignore=NOT_SOURCE)
    for command in (["setup.py", "-q", "build_ext", "--inplace"], ["-m", "compileall", "-q", *PACKAGES]):
        subprocess.run([sys.executable, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder


def archived(revision: str, folder: Path) -> Path:
    """The files of a revision, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "x"], cwd=folder, check=True, input=archive)
    return folder


def probe(side: Path, question: tuple[str, ...], seconds: float, limit: float, cache: Path) -> Costs:
    """What a new process of one side answers. Raises RuntimeError with its last words, TimeoutExpired behind the limit."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.benchmarks.probe", *question, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": str(side), "OMP_NUM_THREADS": "1", "DYNAMO_CACHE_DIR": str(cache)}
    done = subprocess.run(command, cwd=side, env=environment, capture_output=True, text=True, timeout=limit)
    if done.returncode != 0:
        raise RuntimeError(f"{side.name}: {' '.join(question)}:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(sides: tuple[Path, Path], rounds: int, seconds: float, only: str, end: float) -> Iterator[tuple[Costs, Costs]]:
    """The least costs so far, old and new, behind each question of each round. Raises TimeoutExpired when the clock is at `end`."""
    least: tuple[Costs, Costs] = ({}, {})
    asked = dict((question, times) for question, times in PROBES if only in " ".join(question))
    for round in range(rounds):
        for question, times in list(asked.items()):
            for index in (i for turn in range(times) for i in ((0, 1), (1, 0))[(round * times + turn) % 2]):
                with tempfile.TemporaryDirectory() as cache:
                    try:
                        found = probe(sides[index], question, seconds, min(end - time.monotonic(), LIMIT), Path(cache))
                    except RuntimeError as error:
                        print(f"not asked again: {error}", file=sys.stderr, flush=True)
                        del asked[question]
                        break
                for name, cost in found.items():
                    least[index][name] = min(least[index].get(name, math.inf), cost)
            yield least


def line(name: str, old: float, new: float) -> str:
    return f"{name:64} {old:12.5f} {new:12.5f} {old / new:6.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.before_after", description=__doc__)
    parser.add_argument("revision")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side for a row, at least (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.15, help="of each call that is repeated, in each process (%(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="rows that are not there by then are left out")
    parser.add_argument("--only", default="", help="part of a question: import, calls, captures, first NAME, kernels")
    parser.add_argument("--sides", type=Path, help="a folder for both copies, made if they are missing")
    parser.add_argument("--old-tree", type=Path, help="a folder with the revision's files; without it git is asked for them")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows: dict[str, tuple[float, float]] = {}
    end = time.monotonic() + options.minutes * 60
    with contextlib.ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = options.sides or temporary
        old_tree = options.old_tree or archived(options.revision, temporary / "archive")
        with ThreadPoolExecutor() as pool:
            old, new = (pool.submit(copied, folder / name, tree, ROOT / "tests") for name, tree in (("old", old_tree), ("new", ROOT)))
        sides = (old.result(), new.result())
        try:
            for olds, news in measured(sides, options.rounds, options.seconds, options.only, end):
                found = {name: (olds[name], new) for name, new in news.items() if name in olds}
                for name in (name for name, costs in found.items() if rows.get(name) != costs):
                    print(line(name, *found[name]), file=sys.stderr, flush=True)
                rows |= found
        except subprocess.TimeoutExpired:
            if time.monotonic() < end:
                raise
    if not rows:
        print("no row was measured; give more --minutes", file=sys.stderr)
        return 1
    ratios = {name: old / new for name, (old, new) in rows.items()}
    geomean = math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios))
    worst = min(ratios, key=ratios.__getitem__)
    if options.json:
        table = [{"name": name, "old": old, "new": new, "ratio": ratios[name]} for name, (old, new) in rows.items()]
        print(json.dumps({"rows": table, "geomean": geomean, "worst": worst}, indent=2))
    else:
        print(*(line(name, *costs) for name, costs in rows.items()), sep="\n")
        print(f"\n{len(rows)} rows, old to new: geomean {geomean:.3f}, worst {ratios[worst]:.3f} ({worst})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
