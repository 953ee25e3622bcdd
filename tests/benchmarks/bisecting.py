"""The accuracy bisector on labelled differences: the confusion table, and how often the planted decision is named exactly.

    python -m tests.benchmarks.bisecting [--set first|second] [NAME]

Rows are in `tests/minifier/labelled`: programs whose compiled form differs by rounding alone, and programs that are compiled wrongly. The
answer is that of `bisect_graph`, which `dynamo-debug bisect` prints. NAME takes only the rows with that text in their names.
"""

from __future__ import annotations

import argparse
import sys

from tests.minifier.labelled.asking import SETS, Answer, Score, ask, cases, score

TARGET, NAMED = 0.98, 0.95


def answers(file: str, wanted: str, shown: bool) -> list[Answer]:
    found = []
    for case in cases(file):
        if wanted in case.name:
            found.append(ask(case))
            if shown or not found[-1].is_right:
                print("   " if found[-1].is_right else "!! ", found[-1].line()[:220], file=sys.stderr, flush=True)
    return found


def table(name: str, found: Score) -> str:
    right, hits = found.legitimate - found.false_alarms, found.planted - found.missed
    met = found.precision >= TARGET and found.recall >= TARGET and found.named_rate >= NAMED
    return "\n".join(
        (
            f"{name:<22} {'finding':>9} {'rounding':>9}",
            f"{'  planted errors':<22} {hits:>9} {found.missed:>9}",
            f"{'  legitimate':<22} {found.false_alarms:>9} {right:>9}",
            f"  precision {found.precision:.3f}, recall {found.recall:.3f}",
            f"  culprit named {found.named} of {found.planted} ({found.named_rate:.3f}): {'met' if met else 'MISSED'}",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bisecting", description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="", help="only rows with this in their names")
    parser.add_argument("--set", choices=SETS, help="only this set")
    parser.add_argument("--all", action="store_true", help="show every answer, not only wrong ones")
    options = parser.parse_args()
    total = Score(0, 0, 0, 0, 0)
    for name in [options.set] if options.set else SETS:
        found = score(*(answers(file, options.name, options.all) for file in SETS[name]))
        print(table(f"{name} set", found), flush=True)
        total += found
    if not options.set:
        print(table("both sets", total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
