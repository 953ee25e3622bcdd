"""Writes `inductor/ops.md`: which ATen operators have rows, and how they are lowered.

python -m inductor.lowering.report > inductor/ops.md
"""

from __future__ import annotations

import sys
from itertools import groupby

from inductor.lowering import families
from inductor.lowering.registry import ROWS

KINDS = {
    "native": "one loop nest, fused with its neighbours",
    "decomposed": "several loop nests, fused with each other and their neighbours",
    "view": "a new index map over the same memory; costs nothing",
}


def report() -> str:
    families.load()
    rows = sorted(ROWS.values(), key=lambda r: (r.family, str(r.target)))
    lines = ["# Operators", "", "Written by `python -m inductor.lowering.report`; a test compares it with the table of rows.", ""]
    lines += [f"- **{kind}**: {meaning}: {sum(r.kind == kind for r in rows)} overloads" for kind, meaning in KINDS.items()]
    lines += [
        "- **extern**: every other operator, and the cases a row declines (integer division, complex numbers): an ATen call",
        "",
    ]
    for family, members in groupby(rows, key=lambda r: r.family):
        lines += [f"## {family}", "", "| operator | lowering |", "|---|---|"]
        lines += [f"| `{str(r.target).removeprefix('aten.')}` | {r.kind} |" for r in members]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(report())
