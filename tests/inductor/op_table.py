"""`docs/op_db.md`: what became of every operator of torch's test database. Tests compare its rows; ACCEPT_GOLDEN=1 rewrites them."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch

PATH = Path(__file__).resolve().parents[2] / "docs" / "op_db.md"
HEAD = ("operator", "float32", "gradient", "float64", "bfloat16", "int64", "bool", "result")
CLASSES = ("native", "decomposed", "extern", "break")

Row = tuple[str, ...]  # cells as in HEAD

INTRO = """# Operators of `op_db`

Every entry of `torch.testing._internal.common_methods_invocations.op_db`, its first three samples in each of five dtypes, through
`dynamo.compile(fn, backend="inductor")` and compared with eager; float32 and float64 with gradients. Written by
`make accept PYTEST_ARGS="tests/inductor/test_op_db.py"`, compared by the same tests. A cell says how the compile went:

- **native**: loop nests only, one for each ATen operator
- **decomposed**: loop nests only, several for at least one ATen operator
- **extern**: at least one ATen call
- **break**: at least part of the call is run by Python: it reads data, or is of a kind that is not captured
- empty: the operator does not support the dtype (or has no gradient)

An operator counts as what it is in the first dtype it supports.
"""


def cells(line: str) -> Row:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


def line_of(row: Row) -> str:
    return "| " + " | ".join(row) + " |"


def read() -> dict[str, Row]:
    if not PATH.exists():
        return {}
    rows = [cells(line) for line in PATH.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {row[0]: row for row in rows}


def class_of(row: Row) -> str:
    """The first dtype's class."""
    return next((cell for title, cell in zip(HEAD, row, strict=True) if cell in CLASSES and title != "gradient"), "extern")


def torch_version() -> str:
    """Which torch's operators these are: 2.13 of 2.13.0+cpu."""
    return ".".join(torch.__version__.split(".")[:2])


def is_comparable() -> bool:
    """Another torch has other operators, and takes other ways through them."""
    return not PATH.exists() or f"torch {torch_version()}," in PATH.read_text(encoding="utf-8")


def counts(rows: Mapping[str, Row]) -> Counter[str]:
    return Counter(class_of(row) for row in rows.values())


def text_of(rows: Mapping[str, Row]) -> str:
    found = counts(rows)
    summary = ", ".join(f"{found[kind]} {kind}" for kind in CLASSES)
    wrong = sum(row[-1] != "equal" for row in rows.values())
    total = f"torch {torch_version()}, {len(rows)} operators: {summary}; {wrong} wrong."
    lines = [INTRO, total, "", line_of(HEAD), line_of(tuple("---" for _ in HEAD))]
    return "\n".join([*lines, *(line_of(rows[name]) for name in sorted(rows))]) + "\n"


def accept(new: Mapping[str, Row], known: set[str]) -> None:
    """Replace some rows, and drop those of operators that are gone. Workers take turns."""
    with open(Path(tempfile.gettempdir()) / f"dynamo-debug-op-table-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = {name: row for name, row in {**read(), **new}.items() if name in known}
        PATH.write_text(text_of(rows), encoding="utf-8")
