"""Machine code of built kernels, by function."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from inductor.targets.cpu import build

LIMIT = 64 * 1024  # bytes of one kernel: beyond, a loop was unrolled or grouped without end


def code_sizes(library: Path) -> dict[str, int]:
    """Bytes of each function of a library."""
    printed = subprocess.run(["nm", "-S", str(library)], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4 and row[2] in "tT"}


@contextmanager
def built_sizes(patch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Collects the functions of all libraries that are loaded meanwhile."""
    found: dict[str, int] = {}
    load = build.load

    def watched(path: Path) -> object:
        found.update({f"{path.name}:{name}": size for name, size in code_sizes(path).items()})
        return load(path)

    with patch.context() as inside:
        inside.setattr(build, "load", watched)
        yield found
