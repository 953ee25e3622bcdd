"""Verdicts as a table in Markdown: `dynamo-debug corpus run --json | python -m minifier.corpus.table`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

HEADS = ("case", "verdict", "size", "stage", "culprit", "signature", "runs", "seconds")


def table(verdicts: Sequence[dict[str, Any]]) -> str:
    """The sentence of how many are met, and a row per verdict, in their order."""
    met = sum(v["met"] for v in verdicts)
    rows = [HEADS, ("---",) * len(HEADS), *map(_cells, verdicts)]
    return f"{met} of {len(verdicts)} cases are met.\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(v: dict[str, Any]) -> tuple[str, ...]:
    verdict = "met" if v["met"] else "; ".join(v["problems"])
    shown = str(v["shown"])[:60]
    texts = (f"`{v['case']}`", verdict, f"{v['size']} {v['unit']}", v["stage"], v["culprit"], shown, str(v["calls"]), f"{v['seconds']:.0f}")
    return tuple(" ".join(t.split()).replace("|", "\\|") for t in texts)


if __name__ == "__main__":
    sys.stdout.write(table(json.load(sys.stdin)))
