"""Planted faults of all programs: `python -m tests.inductor.sanitizer --jobs 6 [NAME]...` prints what was planted, found and missed."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter

from tests.inductor.sanitizer.counting import counted
from tests.inductor.sanitizer.planting import RULES
from tests.inductor.sanitizer.subjects import NAMES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    total: Counter[str] = Counter()
    lost, kernels = [], 0
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        for name, planted, missing, count, seconds in pool.imap_unordered(counted, given.names):
            total += planted
            lost += missing
            kernels += count
            print(
                f"{name}: {planted.total()} faults in {count} kernels, {len(missing)} missed ({seconds:.0f} s)",
                *missing,
                sep="\n  ",
                flush=True,
            )
    for kind in RULES:
        print(f"{total[kind]:5} {kind}")
    print(
        f"{total.total()} faults planted in {kernels} kernels, {total.total() - len(lost)} found; no false alarm in the kernels as they are"
    )
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
