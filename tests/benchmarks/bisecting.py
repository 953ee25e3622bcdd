"""The accuracy bisector on labelled differences: the confusion table, and how often the planted decision is named exactly.

    python -m tests.benchmarks.bisecting [--set first|second] [--share 0/4] [--json] [NAME]

Rows are in `tests/minifier/labelled`: programs whose compiled form differs by rounding alone, and programs that are compiled wrongly. The
answer is that of `bisect_graph`, which `dynamo-debug bisect` prints. NAME takes only the rows with that text in their names, `--share i/n`
every n-th from the i-th on. With `--json` each answer is a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.minifier.labelled.asking import SETS, Answer, Score, ask, cases, score

TARGET, NAMED = 0.98, 0.95


def answers(file: str, options: argparse.Namespace) -> list[Answer]:
    found = []
    share, _, of = options.share.partition("/")
    for case in [c for c in cases(file) if options.name in c.name][int(share) :: int(of)]:
        found.append(ask(case))
        if options.json:
            told = {"name": case.name, "culprit": case.culprit, "finding": found[-1].report.is_finding, "right": found[-1].is_right}
            print(json.dumps({**told, "line": found[-1].line()[:300]}), flush=True)
        elif options.all or not found[-1].is_right:
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
    parser.add_argument("--share", default="0/1", help="every n-th row, from the i-th on: i/n")
    parser.add_argument("--json", action="store_true", help="a line per answer, and no table")
    options = parser.parse_args()
    total = Score(0, 0, 0, 0, 0)
    for name in [options.set] if options.set else SETS:
        found = score(*(answers(file, options) for file in SETS[name]))
        if not options.json:
            print(table(f"{name} set", found), flush=True)
        total += found
    if not options.set and not options.json:
        print(table("both sets", total))
    return 0


if __name__ == "__main__":
    sys.exit(main())
